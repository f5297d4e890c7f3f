package kafkaclient

import "math"

const both = Source | Sink

var booleans = []string{"true", "false"}

// accepted are the properties that have an effect, by name. docs/connection.md holds the same table.
var accepted = []Property{
	{Name: "acks", Sides: Sink, kind: oneOf, options: []string{"all", "-1", "1", "0"}, Default: "all",
		Effect: "Which brokers acknowledge a record. 0 and 1 only with `delivery_guarantee: none`: the other guarantees need all in-sync replicas."},
	{Name: "allow.auto.create.topics", Sides: Source, kind: oneOf, options: []string{"false"}, Default: "false",
		Effect: "A topic is never created by reading or writing it."},
	{Name: "batch.size", Sides: Sink, kind: bytesOf, least: 0, most: math.MaxInt32, Default: "65536",
		Effect: "How much goes to one partition before records without a key go on to the next (KIP-794). A batch that waits for its turn grows beyond it, up to `max.request.size`."},
	{Name: "buffer.memory", Sides: Sink, kind: bytesOf, least: 1 << 20, most: 1 << 40, Default: "67108864",
		Effect: "How much may be sent and not yet acknowledged, counted in keys, values and headers. A write waits beyond it."},
	{Name: "check.crcs", Sides: Source, kind: oneOf, options: booleans, Default: "true",
		Effect: "Whether the checksum of each batch is checked."},
	{Name: "client.dns.lookup", Sides: both, kind: oneOf, options: []string{"use_all_dns_ips"}, Default: "use_all_dns_ips",
		Effect: "Every address of a host name is tried."},
	{Name: "client.id", Sides: both, kind: text, Default: "see `client_id_prefix`; of a sink `tidegate-` and its label or path",
		Effect: "What the brokers see in logs, quotas and metrics. A source adds its index and what a client is for, as with `client_id_prefix`."},
	{Name: "client.rack", Sides: Source, kind: text, Default: "none",
		Effect: "The same as `rack`."},
	{Name: "compression.type", Sides: Sink, kind: oneOf, options: []string{"none", "gzip", "snappy", "lz4", "zstd"}, Default: "none",
		Effect: "How batches are compressed."},
	{Name: "connections.max.idle.ms", Sides: both, kind: millis, least: 100, most: 900_000, Default: "30000",
		Effect: "When a connection that nobody uses is closed."},
	{Name: "delivery.timeout.ms", Sides: Sink, kind: millis, least: 1000, most: math.MaxInt32, Default: "120000",
		Effect: "How long a write without checkpoints waits for its acknowledgement. With checkpoints it is `checkpoint.timeout` that bounds it."},
	{Name: "enable.idempotence", Sides: Sink, kind: oneOf, options: booleans, Default: "true",
		Effect: "Whether a record that is sent again is there once. Exactly-once needs it."},
	{Name: "fetch.max.bytes", Sides: Source, kind: bytesOf, least: 1024, most: 512 << 20, Default: "4194304",
		Effect: "The most that one broker is asked for at once. It is asked for less where records are small or well compressed, so that what is read ahead stays within 16 MB; more than 8388608 raises that to twice as much."},
	{Name: "fetch.max.wait.ms", Sides: Source, kind: millis, least: 10, most: 300_000, Default: "500",
		Effect: "How long a broker waits for `fetch.min.bytes`. New records come at once all the same."},
	{Name: "fetch.min.bytes", Sides: Source, kind: bytesOf, least: 1, most: 512 << 20, Default: "1",
		Effect: "For how much a broker waits before it answers."},
	{Name: "isolation.level", Sides: Source, kind: oneOf, options: []string{"read_uncommitted", "read_committed"}, Default: "read_uncommitted",
		Effect: "The same as `isolation_level`."},
	{Name: "linger.ms", Sides: Sink, kind: millis, least: 0, most: 60_000, Default: "5 with checkpoints, else 0",
		Effect: "How long a record waits for others to share its batch. A checkpoint does not wait for it."},
	{Name: "max.in.flight.requests.per.connection", Sides: Sink, kind: wholeNumber, least: 1, most: 1000, Default: "5",
		Effect: "Has an effect with `enable.idempotence: false` only, where more than 1 gives up the order of records that are sent again. An idempotent producer keeps their order whatever it is."},
	{Name: "max.partition.fetch.bytes", Sides: Source, kind: bytesOf, least: 1024, most: 512 << 20, Default: "1048576",
		Effect: "The most that is asked for of one partition, within `fetch.max.bytes`. A larger batch comes alone."},
	{Name: "max.poll.records", Sides: Source, kind: wholeNumber, least: 1, most: 1_000_000, Default: "1000",
		Effect: "How many messages a batch holds at most."},
	{Name: "max.request.size", Sides: Sink, kind: bytesOf, least: 1024, most: 64 << 20, Default: "1048588",
		Effect: "The largest batch, before it is compressed, and so the largest record. The topic's `max.message.bytes` has to allow it."},
	{Name: "metadata.max.age.ms", Sides: both, kind: millis, least: 5000, most: 3_600_000, Default: "300000",
		Effect: "How often the client looks for leaders that have changed without an error."},
	{Name: "request.timeout.ms", Sides: both, kind: millis, least: 100, most: 900_000, Default: "10000",
		Effect: "How long an answer is waited for, beyond the time that a request itself grants the broker."},
	{Name: "retries", Sides: Sink, kind: wholeNumber, least: 0, most: math.MaxInt32, Default: "2147483647",
		Effect: "How often a record is sent again. With checkpoints the stream then goes back to the last one."},
	{Name: "retry.backoff.max.ms", Sides: both, kind: millis, least: 1, most: 60_000, Default: "5000",
		Effect: "The longest time between two tries of a request."},
	{Name: "retry.backoff.ms", Sides: both, kind: millis, least: 1, most: 60_000, Default: "250",
		Effect: "The time before the second try of a request; it doubles with each."},
	{Name: propJAAS, Sides: both, kind: text, Secret: true, Default: "none",
		Effect: "Who the client is, as Java has it: `PlainLoginModule` or `ScramLoginModule` with `username` and `password`. `sasl` says the same."},
	{Name: propMechanism, Sides: both, kind: text, Default: "PLAIN with `PlainLoginModule`",
		Effect: "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."},
	{Name: propProtocol, Sides: both, kind: oneOf, options: []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, Default: "by `tls` and `sasl`",
		Effect: "Whether connections are encrypted, and whether the client logs in."},
	{Name: "socket.connection.setup.timeout.ms", Sides: both, kind: millis, least: 100, most: 300_000, Default: "10000",
		Effect: "How long a connection may take to open, TLS included."},
	{Name: "ssl.endpoint.identification.algorithm", Sides: both, kind: oneOf, options: []string{"https", ""}, Default: "https",
		Effect: "Empty: a broker's certificate may be for any host name."},
	{Name: "ssl.key.password", Sides: both, kind: text, Secret: true, Default: "none",
		Effect: "Opens the private key of `ssl.keystore.key` or `ssl.keystore.location`."},
	{Name: "ssl.keystore.certificate.chain", Sides: both, kind: text, Default: "none",
		Effect: "The client's certificate, in PEM."},
	{Name: "ssl.keystore.key", Sides: both, kind: text, Secret: true, Default: "none",
		Effect: "The client's private key, in PEM."},
	{Name: "ssl.keystore.location", Sides: both, kind: text, Default: "none",
		Effect: "A file in PEM with the client's certificate and private key."},
	{Name: "ssl.keystore.type", Sides: both, kind: oneOf, options: []string{"PEM"}, Default: "PEM",
		Effect: "Key stores in PEM only; what Java calls JKS or PKCS12 has to be converted."},
	{Name: "ssl.truststore.certificates", Sides: both, kind: text, Default: "none",
		Effect: "The authorities that are trusted, in PEM."},
	{Name: "ssl.truststore.location", Sides: both, kind: text, Default: "the system's authorities",
		Effect: "A file in PEM with the authorities that are trusted."},
	{Name: "ssl.truststore.type", Sides: both, kind: oneOf, options: []string{"PEM"}, Default: "PEM",
		Effect: "As `ssl.keystore.type`."},
	{Name: "transaction.timeout.ms", Sides: Sink, kind: millis, least: 1000, most: 1_800_000_000, Default: "see `transactions.timeout`",
		Effect: "The same as `transactions.timeout`."},
}

// notTaken says why a value that Kafka takes is refused here.
var notTaken = map[string]string{
	"allow.auto.create.topics": "topics are never created by reading or writing them; create it first",
	"client.dns.lookup":        "all addresses of a host name are tried, which is use_all_dns_ips",
	"ssl.keystore.type":        convertStore,
	"ssl.truststore.type":      convertStore,
}

const convertStore = "key stores have to be in PEM; convert it by `openssl pkcs12 -in store.p12 -out store.pem`, a JKS store first by " +
	"`keytool -importkeystore -srckeystore store.jks -destkeystore store.p12 -deststoretype PKCS12`"

const (
	fixedBytes  = "messages hold the bytes of a record as they are; remove it"
	noMember    = "a source is not a member of its group, as in Flink: it reads what its checkpoints or its index say; remove it"
	javaOnly    = "it names Java code, which this process cannot run; remove it"
	tryAgain    = "requests are tried again until the checkpoint, the start or the stop that needs them gives up; remove it"
	systemTunes = "the operating system tunes the buffers of sockets; remove it"
	noStoreYet  = "a key store in PEM has no password; remove it, or write the password of the private key as ssl.key.password"
	goCrypto    = "versions and ciphers of TLS are those of Go: 1.2 and 1.3, and nothing that is known to be weak; remove it"
	noLevel     = "compression levels cannot be chosen; remove it"
)

// refused are properties that are known and have no effect here, with the reason and the way out.
var refused = map[string]string{
	"bootstrap.servers":                      "it is set by the field bootstrap_servers",
	"group.id":                               "it is set by the field group_id",
	"auto.offset.reset":                      "it is set by the field startup.offset_reset, and where reading begins by startup.mode",
	"enable.auto.commit":                     "it is set by the field auto_commit.enabled",
	"auto.commit.interval.ms":                "it is set by the field auto_commit.interval",
	"commit.offsets.on.checkpoint":           "it is set by the field commit_offsets_on_checkpoint",
	"client.id.prefix":                       "it is set by the field client_id_prefix",
	"partition.discovery.interval.ms":        "it is set by the field discovery_interval",
	"transactional.id":                       "it is set by the field transactional_id_prefix",
	"transaction.two.phase.commit.enable":    "transactions are committed in two phases by checkpoints, see transactional_id_prefix; remove it",
	"key.deserializer":                       fixedBytes,
	"value.deserializer":                     fixedBytes,
	"key.serializer":                         fixedBytes,
	"value.serializer":                       fixedBytes,
	"session.timeout.ms":                     noMember,
	"heartbeat.interval.ms":                  noMember,
	"max.poll.interval.ms":                   noMember,
	"group.instance.id":                      noMember,
	"group.protocol":                         noMember,
	"group.remote.assignor":                  noMember,
	"partition.assignment.strategy":          noMember,
	"exclude.internal.topics":                "the topics that are read are those of the field topics; remove it",
	"register.consumer.metrics":              "metrics are those of Benthos, see the block metrics; remove it",
	"enable.metrics.push":                    "clients do not send metrics to brokers; remove it",
	"interceptor.classes":                    javaOnly,
	"metric.reporters":                       javaOnly,
	"partitioner.class":                      javaOnly,
	"sasl.client.callback.handler.class":     javaOnly,
	"sasl.login.class":                       javaOnly,
	"sasl.login.callback.handler.class":      javaOnly,
	"security.providers":                     javaOnly,
	"ssl.engine.factory.class":               javaOnly,
	"ssl.provider":                           javaOnly,
	"ssl.keymanager.algorithm":               javaOnly,
	"ssl.trustmanager.algorithm":             javaOnly,
	"ssl.secure.random.implementation":       javaOnly,
	"partitioner.ignore.keys":                "the partition of a record is chosen by its key, as Kafka's default partitioner does; remove it",
	"default.api.timeout.ms":                 tryAgain,
	"max.block.ms":                           tryAgain,
	"reconnect.backoff.ms":                   "a connection is opened when a request needs it; set retry.backoff.ms, which is the pace of tries",
	"reconnect.backoff.max.ms":               "a connection is opened when a request needs it; set retry.backoff.max.ms, which is the pace of tries",
	"socket.connection.setup.timeout.max.ms": "the time for opening a connection does not grow; set socket.connection.setup.timeout.ms",
	"send.buffer.bytes":                      systemTunes,
	"receive.buffer.bytes":                   systemTunes,
	"metadata.max.idle.ms":                   "topics that are not written to any more cost nothing; remove it",
	"ssl.keystore.password":                  noStoreYet,
	"ssl.truststore.password":                noStoreYet,
	"ssl.protocol":                           goCrypto,
	"ssl.enabled.protocols":                  goCrypto,
	"ssl.cipher.suites":                      goCrypto,
	"compression.gzip.level":                 noLevel,
	"compression.lz4.level":                  noLevel,
	"compression.zstd.level":                 noLevel,
}

// refusedPrefixes are families of refused properties.
var refusedPrefixes = map[string]string{
	"sasl.kerberos.":        "the mechanism GSSAPI is not supported yet",
	"sasl.oauthbearer.":     "the mechanism OAUTHBEARER is not supported yet",
	"sasl.login.":           "logging in anew needs no settings; remove it",
	"metrics.":              "metrics are those of Benthos, see the block metrics; remove it",
	"partitioner.adaptive.": "the partition of a record without a key is chosen by what was sent, not by how fast brokers are; remove it",
	"auto.include.jmx.":     javaOnly,
	"share.":                noMember,
}

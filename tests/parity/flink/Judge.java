import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumerator;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;
import org.apache.flink.util.SerializedThrowable;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.TopicPartition;

/**
 * Runs jobs that only read, in a Flink cluster inside this process, as another process asks. Commands come in as lines of JSON
 * on standard input: start a job, cancel it, stop it with a savepoint. What becomes of the jobs goes out as lines of
 * JSON: every record, a savepoint's path, and how the job ended.
 */
public final class Judge {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, JobClient> JOBS = new ConcurrentHashMap<>();
    private static PrintStream out;
    private static URI cluster;

    public static void main(String[] args) throws Exception {
        out = System.out;
        System.setOut(System.err); // nothing else may write between the lines
        cluster = startCluster();
        ExecutorService pool = Executors.newFixedThreadPool(8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JsonNode command = JSON.readTree(line);
            pool.submit(() -> perform(command));
        }
        System.exit(0);
    }

    /** Starts the cluster of all jobs, in this process, so that their static fields are ours. */
    private static URI startCluster() throws Exception {
        Configuration conf = new Configuration();
        conf.setString("rest.address", "localhost");
        conf.setString("rest.bind-port", "0");
        conf.setString("taskmanager.memory.network.min", "32mb");
        conf.setString("taskmanager.memory.network.max", "32mb");
        conf.setString("taskmanager.memory.managed.size", "32mb");
        MiniCluster c = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(conf).setNumTaskManagers(1).setNumSlotsPerTaskManager(32).build());
        c.start();
        return c.getRestAddress().get();
    }

    private static void perform(JsonNode command) {
        String id = command.get("id").asText();
        try {
            switch (command.get("cmd").asText()) {
                case "start" -> start(id, command);
                case "cancel" -> JOBS.get(id).cancel();
                case "savepoint" -> emit(id, "savepoint", "path", JOBS.get(id)
                        .stopWithSavepoint(false, command.get("dir").asText(), SavepointFormatType.CANONICAL).get());
                case "owners" -> emit(id, "owners", "owners", owners(command));
                default -> throw new IllegalArgumentException(command.toString());
            }
        } catch (Throwable t) {
            emit(id, "failed", "causes", causes(t));
        }
    }

    /** Which of several readers gets each partition, by the rule of Flink's enumerator. */
    private static List<Integer> owners(JsonNode command) throws Exception {
        Method rule = KafkaSourceEnumerator.class.getDeclaredMethod("getSplitOwner", TopicPartition.class, int.class);
        rule.setAccessible(true);
        List<Integer> owners = new ArrayList<>();
        for (String p : strings(command.get("partitions"))) {
            owners.add((Integer) rule.invoke(null, partition(p), command.get("readers").asInt()));
        }
        return owners;
    }

    private static void start(String id, JsonNode job) throws Exception {
        Configuration conf = new Configuration();
        conf.setString("restart-strategy.type", "none");
        if (job.hasNonNull("checkpoint_ms")) {
            conf.setString("execution.checkpointing.interval", job.get("checkpoint_ms").asText() + "ms");
        }
        if (job.hasNonNull("restore")) {
            conf.setString("execution.state-recovery.path", job.get("restore").asText());
        }
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createRemoteEnvironment(
                cluster.getHost(), cluster.getPort(), conf);
        env.setParallelism(1);
        DataStream<String[]> rows = job.get("via").asText().equals("sql") ? sql(env, job) : api(env, job);
        rows.map(new Report(id)).returns(Types.BOOLEAN).uid("report").sinkTo(new DiscardingSink<>()).uid("sink");
        JobClient client = env.executeAsync(id);
        JOBS.put(id, client);
        emit(id, "started", null, null);
        client.getJobExecutionResult().whenComplete((result, error) -> {
            if (error == null) {
                emit(id, "ended", null, null);
            } else {
                emit(id, "failed", "causes", causes(error));
            }
        });
    }

    private static DataStream<String[]> sql(StreamExecutionEnvironment env, JsonNode job) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        List<String> options = new ArrayList<>();
        job.get("options").fields().forEachRemaining(o -> options.add(quote(o.getKey()) + " = " + quote(o.getValue().asText())));
        tables.executeSql("CREATE TABLE source (v STRING, t STRING METADATA FROM 'topic' VIRTUAL, p INT METADATA FROM "
                + "'partition' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL) WITH (" + String.join(", ", options) + ")");
        return tables.toDataStream(tables.sqlQuery("SELECT t, p, o, v FROM source"))
                .map((MapFunction<Row, String[]>) r -> new String[] {
                    (String) r.getField(0), String.valueOf(r.getField(1)), String.valueOf(r.getField(2)), (String) r.getField(3)})
                .returns(TypeInformation.of(String[].class));
    }

    private static String quote(String s) {
        return "'" + s.replace("'", "''") + "'";
    }

    private static DataStream<String[]> api(StreamExecutionEnvironment env, JsonNode job) {
        KafkaSourceBuilder<String[]> b = KafkaSource.<String[]>builder()
                .setBootstrapServers(job.get("bootstrap").asText())
                .setDeserializer(new Rows());
        if (job.hasNonNull("topics")) {
            b.setTopics(strings(job.get("topics")));
        }
        if (job.hasNonNull("pattern")) {
            b.setTopicPattern(Pattern.compile(job.get("pattern").asText()));
        }
        if (job.hasNonNull("partitions")) {
            Set<TopicPartition> set = new HashSet<>();
            strings(job.get("partitions")).forEach(p -> set.add(partition(p)));
            b.setPartitions(set);
        }
        if (job.hasNonNull("group")) {
            b.setGroupId(job.get("group").asText());
        }
        job.get("properties").fields().forEachRemaining(p -> b.setProperty(p.getKey(), p.getValue().asText()));
        if (job.hasNonNull("start")) {
            b.setStartingOffsets(initializer(job.get("start")));
        }
        if (job.hasNonNull("bounded")) {
            b.setBounded(initializer(job.get("bounded")));
        }
        if (job.hasNonNull("unbounded")) {
            b.setUnbounded(initializer(job.get("unbounded")));
        }
        return env.fromSource(b.build(), WatermarkStrategy.noWatermarks(), "source").uid("source");
    }

    private static List<String> strings(JsonNode list) {
        List<String> all = new ArrayList<>();
        list.forEach(n -> all.add(n.asText()));
        return all;
    }

    /** A partition is written as topic:number. */
    private static TopicPartition partition(String s) {
        int colon = s.lastIndexOf(':');
        return new TopicPartition(s.substring(0, colon), Integer.parseInt(s.substring(colon + 1)));
    }

    private static OffsetsInitializer initializer(JsonNode i) {
        OffsetResetStrategy reset = i.hasNonNull("reset")
                ? OffsetResetStrategy.valueOf(i.get("reset").asText().toUpperCase())
                : null;
        switch (i.get("mode").asText()) {
            case "earliest-offset":
                return OffsetsInitializer.earliest();
            case "latest-offset":
                return OffsetsInitializer.latest();
            case "timestamp":
                return OffsetsInitializer.timestamp(i.get("timestamp").asLong());
            case "group-offsets":
                return reset == null ? OffsetsInitializer.committedOffsets() : OffsetsInitializer.committedOffsets(reset);
            case "specific-offsets":
                Map<TopicPartition, Long> offsets = new HashMap<>();
                i.get("offsets").fields().forEachRemaining(o -> offsets.put(partition(o.getKey()), o.getValue().asLong()));
                return reset == null ? OffsetsInitializer.offsets(offsets) : OffsetsInitializer.offsets(offsets, reset);
            default:
                throw new IllegalArgumentException(i.toString());
        }
    }

    /** What went wrong, from the outside in, each as class and first line. */
    private static List<String> causes(Throwable t) {
        List<String> all = new ArrayList<>();
        for (; t != null && all.size() < 20; t = t.getCause()) {
            String name = t instanceof SerializedThrowable s ? s.getOriginalErrorClassName() : t.getClass().getName();
            String message = String.valueOf(t.getMessage()).lines().limit(4).collect(Collectors.joining(" "));
            all.add(name + ": " + message);
        }
        return all;
    }

    private static void emit(String id, String event, String key, Object value) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", id);
        line.put("event", event);
        if (key != null) {
            line.put(key, value);
        }
        try {
            String text = JSON.writeValueAsString(line);
            synchronized (Judge.class) {
                out.println(text);
                out.flush();
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** Tells of every record. The job runs in this process, so a static method is in reach. */
    private static final class Report implements MapFunction<String[], Boolean> {
        private final String id;

        Report(String id) {
            this.id = id;
        }

        @Override
        public Boolean map(String[] row) {
            emit(id, "row", "row", row);
            return true;
        }
    }

    private static final class Rows implements KafkaRecordDeserializationSchema<String[]> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> r, Collector<String[]> to) {
            String value = r.value() == null ? null : new String(r.value(), StandardCharsets.UTF_8);
            to.collect(new String[] {r.topic(), String.valueOf(r.partition()), String.valueOf(r.offset()), value});
        }

        @Override
        public TypeInformation<String[]> getProducedType() {
            return TypeInformation.of(String[].class);
        }
    }
}

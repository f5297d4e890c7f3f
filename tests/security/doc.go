// Package security runs the built binary against listeners of a real Kafka that want TLS, SASL or both. Settings that fit
// come in, and records go out once; settings that do not come in, and the message that ends the process goes out: the
// field, the cause and the way out, and never a password (rule 13). Nothing imports it.
package security

// Package prometheus is the metrics exporter `prometheus`: what Benthos and its components count is served in Prometheus's
// text format at /metrics and /stats of Benthos's own HTTP server. It is the default where it is linked in. Only a binary
// imports it.
package prometheus

// Package benthosx is what Tidegate's plugins need of their Benthos host and Benthos has no single call for: one
// coordinator per stream, the logger as a slog.Logger, and a way to end the process with a cause. In come
// service.Resources, out go plain Go values, so that adapters and cores stay free of Benthos. Plugins, caches and the
// binary may import it; adapters and cores may not.
package benthosx

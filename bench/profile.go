package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// profileAddress is where bin/connect serves its profiles while it is profiled.
const profileAddress = "127.0.0.1:4197"

// profile saves profiles of a run: CPU over some seconds of it, then everything allocated so far.
func profile(ctx context.Context, dir, system string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	deadline := time.Now().Add(30 * time.Second)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for _, p := range []struct{ path, file string }{
		{"/debug/pprof/profile?seconds=4", "cpu"}, {"/debug/pprof/allocs", "allocs"}, {"/debug/pprof/heap", "heap"},
	} {
		for {
			err := save(ctx, p.path, filepath.Join(dir, system+"."+p.file+".prof"))
			if err == nil {
				break
			}
			if time.Now().After(deadline) || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			<-ticker.C
		}
	}
	return nil
}

func save(ctx context.Context, path, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+profileAddress+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, resp.Body)
	return errors.Join(err, out.Close())
}

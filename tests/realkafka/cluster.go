package realkafka

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/child"
)

//go:embed log4j2.properties
var log4j2 []byte

const (
	// startLimit is how long a broker may take to answer. It takes 3 s on two idle cores, and much longer where many
	// tests share them.
	startLimit = 2 * time.Minute
	// stopLimit is how long a broker may take to stop by SIGTERM before that is an error.
	stopLimit = time.Minute
)

// Cluster is a running Kafka cluster. Brokers are counted from 0. Its methods may be called by several goroutines at a
// time. In a test a method that fails also fails the test, so its result need not be looked at.
type Cluster struct {
	// t is the test that the cluster belongs to; nil for StartProcess.
	t         testing.TB
	options   Options
	java      java
	dir       string
	logConfig string
	id        string
	endpoints []endpoint
	certs     *Certs // nil without Options.Secure
	// external are the addresses of a cluster that is not ours.
	external []string

	mu      sync.Mutex
	brokers []*child.Process // guarded by mu; nil where a broker is not running
}

// StartProcess starts a cluster that keeps its files in a folder, for callers that are no tests. The context bounds the
// start only. The caller must Close the cluster; on Linux the brokers also end when this process does.
func StartProcess(ctx context.Context, options Options, dir string) (*Cluster, error) {
	java, err := findJava()
	if err != nil {
		return nil, err
	}
	options = options.withDefaults()
	c := &Cluster{
		options: options, java: java, dir: dir, id: newClusterID(),
		logConfig: filepath.Join(dir, "log4j2.properties"),
		brokers:   make([]*child.Process, options.Brokers),
	}
	if err := c.start(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("starting Apache Kafka %s: %w", Version, err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for range c.options.Brokers {
		client, err := leasePort()
		if err != nil {
			return err
		}
		controller, err := leasePort()
		if err != nil {
			client.release()
			return err
		}
		secure, err := c.options.Secure.leaseSecure()
		if err != nil {
			client.release()
			controller.release()
			return err
		}
		c.endpoints = append(c.endpoints, endpoint{client, controller, secure})
	}
	if c.options.Secure != nil {
		certs, err := writeCerts(c.dir)
		if err != nil {
			return err
		}
		c.certs = certs
	}
	if err := os.WriteFile(c.logConfig, log4j2, 0o644); err != nil {
		return fmt.Errorf("writing the log settings: %w", err)
	}
	if err := c.each(func(i int) error { return c.format(ctx, i) }); err != nil {
		return err
	}
	return c.each(func(i int) error { return c.startBroker(ctx, i, c.options.Brokers) })
}

// each does something for every broker at a time.
func (c *Cluster) each(do func(i int) error) error {
	errs := make([]error, c.options.Brokers)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) format(ctx context.Context, i int) error {
	if err := os.MkdirAll(c.brokerDir(i), 0o755); err != nil {
		return fmt.Errorf("creating the folder of broker %d: %w", i, err)
	}
	text := c.options.properties(i, c.endpoints, c.certs, filepath.Join(c.brokerDir(i), "data"))
	if err := os.WriteFile(c.propertiesFile(i), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the properties of broker %d: %w", i, err)
	}
	args := c.options.formatArgs(c.id, c.propertiesFile(i))
	if _, err := c.java.run(ctx, c.logConfig, "kafka.tools.StorageTool", args...); err != nil {
		return fmt.Errorf("formatting the folder of broker %d: %w", i, err)
	}
	return nil
}

// startBroker starts broker i and returns when it answers, counts itself in and sees at least want live brokers.
func (c *Cluster) startBroker(ctx context.Context, i, want int) error {
	args := c.java.args("INFO", c.logConfig, c.options.JVM, "kafka.Kafka", c.propertiesFile(i))
	p, err := child.Start(exec.Command(c.java.binary, args...), c.LogFile(i))
	if err != nil {
		return fmt.Errorf("starting broker %d: %w", i, err)
	}
	c.mu.Lock()
	c.brokers[i] = p
	c.mu.Unlock()
	return c.awaitReady(ctx, p, i, want)
}

// Bootstrap are the addresses of the brokers.
func (c *Cluster) Bootstrap() []string {
	if c.external != nil {
		return c.external
	}
	addrs := make([]string, len(c.endpoints))
	for i, e := range c.endpoints {
		addrs[i] = e.clientAddr()
	}
	return addrs
}

// BootstrapString are the addresses of the brokers, separated by commas.
func (c *Cluster) BootstrapString() string { return strings.Join(c.Bootstrap(), ",") }

// ClusterID is the id that the cluster was formatted with, empty for a cluster that is not ours.
func (c *Cluster) ClusterID() string { return c.id }

// LogFile is the file that broker i writes its log to.
func (c *Cluster) LogFile(i int) string { return filepath.Join(c.brokerDir(i), "broker.log") }

// Kill ends broker i by SIGKILL and returns when it is gone.
func (c *Cluster) Kill(i int) error {
	p, err := c.running("killing", i)
	if err != nil {
		return err
	}
	p.Kill()
	return nil
}

// Stop ends broker i by SIGTERM and returns when it is gone.
func (c *Cluster) Stop(i int) error {
	p, err := c.running("stopping", i)
	if err != nil {
		return err
	}
	p.Signal(syscall.SIGTERM)
	p.Signal(syscall.SIGCONT) // a paused broker would not act on the SIGTERM
	timer := time.NewTimer(stopLimit)
	defer timer.Stop()
	select {
	case <-p.Done():
		return nil
	case <-timer.C:
		p.Kill()
		return c.report(fmt.Errorf("stopping broker %d: it did not end within %s by SIGTERM, so it was killed%s",
			i, stopLimit, c.logTail(i)))
	}
}

// Pause stops broker i from running by SIGSTOP: its connections stay open and nothing is answered.
func (c *Cluster) Pause(i int) error {
	p, err := c.running("pausing", i)
	if err == nil {
		p.Signal(syscall.SIGSTOP)
	}
	return err
}

// Continue lets a paused broker run again, by SIGCONT.
func (c *Cluster) Continue(i int) error {
	p, err := c.running("continuing", i)
	if err == nil {
		p.Signal(syscall.SIGCONT)
	}
	return err
}

// Restart starts broker i again, on the same port and data, and returns when it answers and is in the cluster. A broker
// that still runs is stopped first.
func (c *Cluster) Restart(i int) error {
	if c.external != nil {
		return c.notOurs("restarting")
	}
	if c.Running(i) {
		if err := c.Stop(i); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := c.startBroker(ctx, i, 1); err != nil {
		return c.report(fmt.Errorf("restarting: %w", err))
	}
	return nil
}

// Running tells whether broker i's process is there, paused or not.
func (c *Cluster) Running(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.external != nil || c.brokers[i] != nil && !c.brokers[i].Ended()
}

// PID is the process of broker i, 0 where it is not running or not ours.
func (c *Cluster) PID(i int) int {
	if p, err := c.running("looking at", i); err == nil {
		return p.PID()
	}
	return 0
}

// Close ends every broker by SIGKILL and gives the ports back. The files stay; the folder is the caller's.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.brokers {
		if p != nil {
			p.Kill()
		}
	}
	for _, e := range c.endpoints {
		e.client.release()
		e.controller.release()
		for _, l := range e.secure {
			l.release()
		}
	}
	c.endpoints = nil
}

// running returns the process of broker i, or an error that says what was to be done with it.
func (c *Cluster) running(doing string, i int) (*child.Process, error) {
	if c.external != nil {
		return nil, c.notOurs(doing)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.brokers[i]; p != nil && !p.Ended() {
		return p, nil
	}
	return nil, c.report(fmt.Errorf("%s broker %d: it is not running%s", doing, i, c.logTail(i)))
}

// notOurs skips a test that would do something to the broker of TIDEGATE_KAFKA.
func (c *Cluster) notOurs(doing string) error {
	err := fmt.Errorf("%s a broker: %s names a cluster that is not ours", doing, brokerEnv)
	if c.t != nil {
		c.t.Helper()
		c.t.Skip(err)
	}
	return err
}

// report fails the test that the cluster belongs to, from any goroutine.
func (c *Cluster) report(err error) error {
	if err != nil && c.t != nil {
		c.t.Helper()
		c.t.Error(err)
	}
	return err
}

func (c *Cluster) brokerDir(i int) string { return filepath.Join(c.dir, fmt.Sprintf("broker-%d", i)) }
func (c *Cluster) propertiesFile(i int) string {
	return filepath.Join(c.brokerDir(i), "server.properties")
}

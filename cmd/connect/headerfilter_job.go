package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	kafkaflinksource "github.com/tidegate/tidegate/plugins/kafka_flink_source"
)

// connection returns how the cluster is reached, as a job says or by its address alone, and with a job the topic where its
// source reads one.
func (a *filterArgs) connection(ctx context.Context) (kafkaclient.Config, error) {
	c := kafkaclient.Config{BootstrapServers: []string{"localhost:9092"}}
	if a.config != "" {
		job, err := readJob(ctx, append(a.job, a.config))
		if err != nil {
			return c, err
		}
		s, err := a.sourceOf(job)
		if err != nil {
			return c, err
		}
		settings, err := kafkaflinksource.ParseSettings(s.Key, s.Config)
		if err != nil {
			return c, fmt.Errorf("%s: %w", s.Key, err)
		}
		c = settings.Reader.Connection
		if topics := settings.Reader.Subscription.Topics; a.topic == "" && len(topics) == 1 {
			a.topic = topics[0]
		}
	}
	if len(a.servers) > 0 {
		c.BootstrapServers = a.servers
	}
	return c.WithClientID("tidegate-header-filter"), nil
}

// sourceOf chooses the source whose connection it is: the one of that name, else the only one.
func (a *filterArgs) sourceOf(job benthosx.Job) (benthosx.Source, error) {
	var keys []string
	for _, s := range job.Sources {
		keys = append(keys, s.Key)
	}
	i := slices.Index(keys, a.source)
	switch {
	case len(keys) == 0:
		return benthosx.Source{}, fmt.Errorf("%s has no kafka_flink_source under input, whose connection could be taken", a.config)
	case a.source != "" && i < 0:
		return benthosx.Source{}, fmt.Errorf("--source %s: %s has %s", a.source, a.config, strings.Join(keys, ", "))
	case a.source == "" && len(keys) > 1:
		return benthosx.Source{}, fmt.Errorf("%s has several sources; name one by --source: %s", a.config, strings.Join(keys, ", "))
	}
	return job.Sources[max(i, 0)], nil
}

package security

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/tests/realkafka"
)

// grant is an ACL, as the README lists them.
type grant struct {
	resource kmsg.ACLResourceType
	// name is that of the resource; in, out and id stand for those of the pipeline.
	name      string
	operation kmsg.ACLOperation
	prefixed  bool
}

// needed are the ACLs of an exactly-once copy, helpful those that make more of it.
var (
	needed = map[string]grant{
		"Read on the input":      {kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationRead, false},
		"Read on the group":      {kmsg.ACLResourceTypeGroup, "id", kmsg.ACLOperationRead, false},
		"Write on the output":    {kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationWrite, false},
		"Write on the id prefix": {kmsg.ACLResourceTypeTransactionalId, "id", kmsg.ACLOperationWrite, true},
	}
	helpful = map[string]grant{
		"Read on the output":             {kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationRead, false},
		"DescribeConfigs on the cluster": {kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLOperationDescribeConfigs, false},
	}
)

// allow gives alice ACLs on what belongs to the pipeline.
func (p pipeline) allow(t *testing.T, grants ...grant) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(p.cluster.Bootstrap()...))
	require.NoError(t, err)
	defer client.Close()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, g := range grants {
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.Operation = g.resource, g.name, g.operation
		if name, ok := map[string]string{"in": p.in, "out": p.out, "id": p.id}[g.name]; ok {
			c.ResourceName = name
		}
		c.ResourcePatternType = kmsg.ACLResourcePatternTypeLiteral
		if g.prefixed {
			c.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed
		}
		c.Principal, c.Host, c.PermissionType = "User:alice", "*", kmsg.ACLPermissionTypeAllow
		req.Creations = append(req.Creations, c)
	}
	resp, err := req.RequestWith(t.Context(), client)
	require.NoError(t, err)
	for _, r := range resp.Results {
		require.Zero(t, r.ErrorCode, "%v", r.ErrorMessage)
	}
	// The brokers follow the controller, which has answered.
	require.Eventually(t, func() bool {
		found, err := kadm.NewClient(client).DescribeACLs(t.Context(), kadm.NewACLs().AnyResource().Allow("User:alice").AllowHosts("*").
			Operations(kmsg.ACLOperationAny).ResourcePatternType(kmsg.ACLResourcePatternTypeAny))
		n := 0
		for _, f := range found {
			for _, d := range f.Described {
				if d.Name == p.in || d.Name == p.out || d.Name == p.id || d.Name == "kafka-cluster" {
					n++
				}
			}
		}
		return err == nil && n >= len(grants)
	}, limit, limit/1000)
}

func allBut(name string) (out []grant) {
	for n, g := range needed {
		if n != name {
			out = append(out, g)
		}
	}
	return out
}

// TestACLsOfTheDocsAreEnoughAndEachIsNeeded: a user with exactly those runs an exactly-once job through a kill; where one
// is missing, the message says which one to grant.
func TestACLsOfTheDocsAreEnoughAndEachIsNeeded(t *testing.T) {
	cluster := realkafka.Start(t, realkafka.Options{Secure: &realkafka.Secure{
		Users: map[string]string{"alice": realkafka.Password}, Authorizer: true}})
	aclPipeline := func(t *testing.T) pipeline {
		p := newPipeline(t, cluster)
		p.listener, p.connection = realkafka.SASLSSL, trusted+login("SCRAM-SHA-512", "alice", realkafka.Password)
		return p
	}
	for name, grants := range map[string][]grant{
		"the needed ones":            allBut(""),
		"with those that are of use": append(allBut(""), helpful["Read on the output"], helpful["DescribeConfigs on the cluster"]),
	} {
		t.Run(name, func(t *testing.T) {
			const records = 400
			p := aclPipeline(t)
			p.allow(t, grants...)
			p.load(t, records/2)
			out := p.observe(t)
			dir := t.TempDir()
			j := startIn(t, dir, p.yaml())
			out.until(t, j, 1)
			j.Kill()
			p.load2(t, records)
			j = startIn(t, dir, p.yaml())
			out.until(t, j, records)
			j.stops(t)
			out.once(t)
			require.NotContains(t, j.log(t), "AUTHORIZATION_FAILED")
			require.NotContains(t, j.log(t), "level=error")
		})
	}
	t.Run("without Write on the output, which may be read", func(t *testing.T) {
		p := aclPipeline(t)
		p.allow(t, append(allBut("Write on the output"), helpful["Read on the output"])...)
		// Nothing is there to be written: the start knows it already.
		last := start(t, p.yaml()).fatalLine(t)
		require.Contains(t, last, "User:alice is not allowed to Write it")
		require.Contains(t, last, "grant the ACL operation Write on resource Topic")
	})
	for name, want := range map[string]string{
		"Read on the input":      "grant the ACL operation Read on resource Topic",
		"Read on the group":      "grant the operation Read on resource Group",
		"Write on the output":    "is not allowed to Write it",
		"Write on the id prefix": "grant the ACL operation Write on resource TransactionalId",
	} {
		t.Run("without "+name, func(t *testing.T) {
			p := aclPipeline(t)
			p.allow(t, allBut(name)...)
			p.load(t, 10)
			j := start(t, p.yaml())
			if name == "Read on the group" {
				// What is committed there is for people; the copy goes on.
				j.said(t, want)
				out := p.observe(t)
				out.until(t, j, 10)
				j.stops(t)
				return
			}
			require.Contains(t, j.fatalLine(t), want)
		})
	}
}

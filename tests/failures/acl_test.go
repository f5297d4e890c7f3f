package failures

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// allow gives alice an operation on what has a name that begins so.
func (b *bench) allow(t *testing.T, resource kmsg.ACLResourceType, operation kmsg.ACLOperation, prefix string) {
	t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = resource, prefix, kmsg.ACLResourcePatternTypePrefixed
	c.Operation, c.Principal, c.Host, c.PermissionType = operation, "User:alice", "*", kmsg.ACLPermissionTypeAllow
	req.Creations = append(req.Creations, c)
	resp, err := req.RequestWith(t.Context(), b.client)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(resp.Results[0].ErrorCode))
	b.awaitACLs(t, prefix, 1)
}

// deny takes everything that alice may do with a topic away.
func (b *bench) deny(t *testing.T, topic string) {
	t.Helper()
	_, err := b.admin.DeleteACLs(t.Context(), kadm.NewACLs().Topics(topic).Allow("User:alice").AllowHosts("*").
		Operations(kmsg.ACLOperationAny).ResourcePatternType(kmsg.ACLResourcePatternTypePrefixed))
	require.NoError(t, err)
	b.awaitACLs(t, topic, 0)
}

// awaitACLs waits until every broker has heard of it from the controller.
func (b *bench) awaitACLs(t *testing.T, name string, want int) {
	t.Helper()
	for i := range 3 {
		require.Eventually(t, func() bool {
			req := kmsg.NewPtrDescribeACLsRequest()
			req.ResourceType, req.ResourceName, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.StringPtr(name), kmsg.ACLResourcePatternTypePrefixed
			req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
			resp, err := req.RequestWith(t.Context(), b.client.Broker(i+1))
			if err != nil || resp.ErrorCode != 0 {
				return false
			}
			n := 0
			for _, r := range resp.Resources {
				n += len(r.ACLs)
			}
			return min(n, 1) == want
		}, limit, limit/1000)
	}
}

package kafkaproxy

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rewrite puts the proxy's ports in the place of the brokers' in every answer that names them. An answer it cannot read
// passes as it is.
func (p *Proxy) rewrite(a asked, frame []byte) []byte {
	switch a.key {
	case kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeCluster, kmsg.Produce, kmsg.Fetch:
	default:
		return frame
	}
	resp := kmsg.ResponseForKey(int16(a.key))
	resp.SetVersion(a.version)
	// The header: correlation id, and in flexible versions an empty tag section.
	header := 4
	if resp.IsFlexible() {
		header = 5
	}
	if len(frame) < header || resp.ReadFrom(frame[header:]) != nil || !p.rewritePorts(resp) {
		return frame
	}
	return resp.AppendTo(append([]byte(nil), frame[:header]...))
}

// rewritePorts tells whether it has changed anything.
func (p *Proxy) rewritePorts(resp kmsg.Response) (changed bool) {
	port := func(v *int32) {
		if to, ok := p.ports[*v]; ok {
			*v, changed = to, true
		}
	}
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			port(&r.Brokers[i].Port)
		}
	case *kmsg.FindCoordinatorResponse:
		port(&r.Port)
		for i := range r.Coordinators {
			port(&r.Coordinators[i].Port)
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			port(&r.Brokers[i].Port)
		}
	case *kmsg.ProduceResponse:
		for i := range r.Brokers {
			port(&r.Brokers[i].Port)
		}
	case *kmsg.FetchResponse:
		for i := range r.Brokers {
			port(&r.Brokers[i].Port)
		}
	}
	return changed
}

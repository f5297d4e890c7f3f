package kafkaclient

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// The ACL operations that a reader and a writer need on their topics; each includes Describe.
const (
	OperationRead  = "Read"
	OperationWrite = "Write"
)

// AccessError says that the brokers do not let a user read or write a topic.
type AccessError struct {
	Topic string
	// Operation is the ACL operation that is missing.
	Operation string
	// Principal is the user the connection logs in as, empty where it is not known.
	Principal string
	Err       error
}

func (e *AccessError) Error() string {
	who := e.Principal
	if who == "" {
		who = "the client's user"
	}
	return fmt.Sprintf("topic %q: %s is not allowed to %s it (%v): grant the ACL operation %s on resource Topic %q. Is the name "+
		"spelt right, and does the topic exist? Brokers answer so too for one that does not, where the user may not describe it",
		e.Topic, who, e.Operation, e.Err, e.Operation, e.Topic)
}

func (e *AccessError) Unwrap() error { return e.Err }

// Access returns an *AccessError where err says that the user lacks an ACL for the topic, else err.
func Access(topic, operation, principal string, err error) error {
	switch {
	case as[*AccessError](err):
		return err
	case errors.Is(err, kerr.TopicAuthorizationFailed),
		// The brokers say so of a producer without Write on any topic. What it needs is Write on its own, not the cluster.
		operation == OperationWrite && errors.Is(err, kerr.ClusterAuthorizationFailed):
		return &AccessError{Topic: topic, Operation: operation, Principal: principal, Err: err}
	}
	return err
}

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// What gRPC tries again by itself, up to 5 times in all: reads, and ExecuteCommand, which is safe only because it carries a trigger id.
const retries = `{
  "methodConfig": [{
    "name": [
      {"service": "digitaldevice.v2.DigitalDeviceService", "method": "ListDigitalDevices"},
      {"service": "actuator_command.v2.ActuatorCommandService", "method": "GetExecution"},
      {"service": "actuator_command.v2.ActuatorCommandService", "method": "ExecuteCommand"}
    ],
    "retryPolicy": {
      "maxAttempts": 5,
      "initialBackoff": "0.2s",
      "maxBackoff": "5s",
      "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }]
}`

// key is what every call carries. It never leaves without TLS.
type key struct {
	apiKey         string
	organizationID string
}

// GetRequestMetadata gives the metadata of a call.
func (k key) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"x-api-key": k.apiKey, "x-organization-id": k.organizationID}, nil
}

// RequireTransportSecurity keeps the key from being sent in plain text.
func (k key) RequireTransportSecurity() bool { return true }

// connect opens a connection to the server at address (host:port), whose CA certificate is in caFile. Key and organization come from the
// environment: a command line is seen by others. Open it once and use it for all calls.
func connect(address, caFile string) (*grpc.ClientConn, error) {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", caFile)
	}
	who := key{apiKey: os.Getenv("PLANTROOM_API_KEY"), organizationID: os.Getenv("PLANTROOM_ORGANIZATION_ID")}
	if who.apiKey == "" || who.organizationID == "" {
		return nil, errors.New("set PLANTROOM_API_KEY and PLANTROOM_ORGANIZATION_ID: the first start of the server shows them")
	}
	return grpc.NewClient(address,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})),
		grpc.WithPerRPCCredentials(who),
		grpc.WithDefaultServiceConfig(retries),
		// A link that broke without a word is found out within 40 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
}

// PlantroomError is a failed call, as the server told it.
type PlantroomError struct {
	Status  codes.Code
	Message string
	// Reason is snake_case and part of the API; empty if it did not come from a Plantroom (a broken link, a proxy).
	Reason string
	// Violations say what is wrong with which field.
	Violations []*errdetails.BadRequest_FieldViolation
	// RequestID is what the server's log can be searched by.
	RequestID string
	// RetryAfter is when it is worth trying again; 0: the server did not say.
	RetryAfter time.Duration
	cause      error
}

func (e *PlantroomError) Error() string {
	return fmt.Sprintf("%s %s: %s", e.Status, e.Reason, e.Message)
}

// Unwrap gives the error of gRPC.
func (e *PlantroomError) Unwrap() error { return e.cause }

// plantroomError reads what the server told with the error of a call; nil stays nil.
func plantroomError(err error) error {
	if err == nil {
		return nil
	}
	told := status.Convert(err)
	failure := &PlantroomError{Status: told.Code(), Message: told.Message(), cause: err}
	for _, detail := range told.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			failure.Reason = detail.GetReason()
		case *errdetails.BadRequest:
			failure.Violations = detail.GetFieldViolations()
		case *errdetails.RequestInfo:
			failure.RequestID = detail.GetRequestId()
		case *errdetails.RetryInfo:
			failure.RetryAfter = detail.GetRetryDelay().AsDuration()
		}
	}
	return failure
}

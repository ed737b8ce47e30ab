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

// gRPC retries these automatically, with up to 5 attempts: reads, and ExecuteCommand, which is safe only because it has a trigger ID.
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

// key is the credentials of every call. It is only sent over TLS.
type key struct {
	apiKey         string
	organizationID string
}

// GetRequestMetadata returns the metadata of a call.
func (k key) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"x-api-key": k.apiKey, "x-organization-id": k.organizationID}, nil
}

// RequireTransportSecurity prevents sending the key in plain text.
func (k key) RequireTransportSecurity() bool { return true }

// connect opens a connection to the server at address (host:port), whose CA certificate is in caFile. Key and organization come from the
// environment, because other users can see the command line. Open one connection and use it for all calls.
func connect(address, caFile string) (*grpc.ClientConn, error) {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s contains no PEM certificate", caFile)
	}
	perCall := key{apiKey: os.Getenv("PLANTROOM_API_KEY"), organizationID: os.Getenv("PLANTROOM_ORGANIZATION_ID")}
	if perCall.apiKey == "" || perCall.organizationID == "" {
		return nil, errors.New("set PLANTROOM_API_KEY and PLANTROOM_ORGANIZATION_ID: the server prints them on its first start")
	}
	return grpc.NewClient(address,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})),
		grpc.WithPerRPCCredentials(perCall),
		grpc.WithDefaultServiceConfig(retries),
		// Detects a broken connection within 40 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
}

// PlantroomError is a failed call with the error details of the server.
type PlantroomError struct {
	Status  codes.Code
	Message string
	// Reason is snake_case and part of the API; empty if the error is not from the server (a broken connection, a proxy).
	Reason string
	// Violations are the invalid fields with their descriptions.
	Violations []*errdetails.BadRequest_FieldViolation
	// RequestID is the ID of this request in the server log.
	RequestID string
	// RetryAfter is the delay before a retry; 0 if the server did not send one.
	RetryAfter time.Duration
	cause      error
}

func (e *PlantroomError) Error() string {
	return fmt.Sprintf("%s %s: %s", e.Status, e.Reason, e.Message)
}

// Unwrap returns the gRPC error.
func (e *PlantroomError) Unwrap() error { return e.cause }

// plantroomError converts the error of a call to a PlantroomError; nil stays nil.
func plantroomError(err error) error {
	if err == nil {
		return nil
	}
	converted := status.Convert(err)
	failure := &PlantroomError{Status: converted.Code(), Message: converted.Message(), cause: err}
	for _, detail := range converted.Details() {
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

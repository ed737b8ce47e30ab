// Lists the devices, executes a command on one of them, and watches the execution until it is final.
//
//	go run . -device ID -command ID -params '{"position": 40}'
//
// Without -device it only lists the devices. Exit code 0: the command succeeded; 1: it did not, or a call failed.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	commands "plantroomexample/stubs/actuator_command/v2"
	devices "plantroomexample/stubs/digitaldevice/v2"
)

// deadline is the maximum duration of a call. Streams have no deadline.
const deadline = 30 * time.Second

// firstPause is the delay before the first retry of a watch. Each further delay is twice as long, up to 30 s.
const firstPause = 500 * time.Millisecond

// listDevices calls use with each device, page by page.
func listDevices(ctx context.Context, client devices.DigitalDeviceServiceClient, use func(*devices.DigitalDevice)) error {
	limit := int32(100)
	request := &devices.ListDigitalDevicesRequest{Limit: &limit}
	for {
		page, err := listPage(ctx, client, request)
		if err != nil {
			return fmt.Errorf("list devices: %w", err)
		}
		for _, device := range page.GetDevices() {
			use(device)
		}
		if page.GetNextPageToken() == "" {
			return nil
		}
		request.PageToken = page.GetNextPageToken()
	}
}

func listPage(ctx context.Context, client devices.DigitalDeviceServiceClient, request *devices.ListDigitalDevicesRequest) (*devices.ListDigitalDevicesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	page, err := client.ListDigitalDevices(ctx, request)
	return page, plantroomError(err)
}

// execute executes a command and returns the execution ID.
func execute(ctx context.Context, client commands.ActuatorCommandServiceClient, deviceID, commandID string, params *structpb.Struct) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	// If this request is repeated within 7 days, the server returns the execution that it already created for this ID.
	triggerID := rand.Text()
	response, err := client.ExecuteCommand(ctx, &commands.ExecuteCommandRequest{Id: deviceID, CommandId: commandID, Params: params, TriggerId: &triggerID})
	if err != nil {
		return "", fmt.Errorf("execute: %w", plantroomError(err))
	}
	if !response.GetAccepted() {
		descriptions := make([]string, 0, len(response.GetViolations()))
		for _, violation := range response.GetViolations() {
			descriptions = append(descriptions, violation.GetField()+": "+violation.GetDescription())
		}
		return "", fmt.Errorf("not admitted: %s %s", response.GetRejectionReason(), strings.Join(descriptions, "; "))
	}
	return response.GetExecutionId(), nil
}

// watch calls use with the execution after each event until it is final. It resumes after a lost connection without missing an event.
func watch(ctx context.Context, client commands.ActuatorCommandServiceClient, executionID string, use func(*commands.Execution)) error {
	token := ""
	for pause := firstPause; ; pause = min(2*pause, 30*time.Second) {
		before := token
		err := follow(ctx, client, executionID, &token, use)
		var failure *PlantroomError
		wait := time.Duration(0)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, io.EOF):
		case !errors.As(err, &failure):
			return fmt.Errorf("watch: %w", err)
		case failure.Reason == "resume_token_expired":
			token = ""
		case !isRetryable(failure.Status):
			return fmt.Errorf("watch: %w", err)
		default:
			wait = failure.RetryAfter
		}
		if token != before {
			pause = firstPause
		}
		fmt.Fprintln(os.Stderr, "the link was lost; going on:", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(wait, pause)):
		}
	}
}

// isRetryable reports whether a watch is resumed after code: the server is unreachable or temporarily overloaded.
func isRetryable(code codes.Code) bool {
	return code == codes.Unavailable || code == codes.ResourceExhausted || code == codes.DeadlineExceeded
}

// follow watches on one stream from token, which it updates. It returns nil when the execution is final, and io.EOF when the server ended the
// stream earlier.
func follow(ctx context.Context, client commands.ActuatorCommandServiceClient, executionID string, token *string, use func(*commands.Execution)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.WatchExecutions(ctx, &commands.WatchExecutionsRequest{ExecutionId: &executionID, ResumeToken: *token, EndsWhenFinal: true})
	if err != nil {
		return plantroomError(err)
	}
	final := false
	for {
		response, err := stream.Recv()
		if final && err != nil {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return err
		}
		if err != nil {
			return plantroomError(err)
		}
		execution := response.GetExecution()
		if *token == "" {
			// The first response to a request without a token only marks the start of the watch. Read the state from before it.
			if execution, err = read(ctx, client, executionID); err != nil {
				return err
			}
		}
		// Store the token only now: if the read failed, the next stream must also start without a token.
		*token = response.GetResumeToken()
		if execution != nil {
			final = execution.GetFinishedAt() != nil
			use(execution)
		}
	}
}

func read(ctx context.Context, client commands.ActuatorCommandServiceClient, executionID string) (*commands.Execution, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	execution, err := client.GetExecution(ctx, &commands.GetExecutionRequest{ExecutionId: executionID})
	return execution, plantroomError(err)
}

func run(ctx context.Context) error {
	address := flag.String("address", "localhost:50051", "host:port of the gRPC port")
	ca := flag.String("ca", "data/tls/ca.pem", "the CA certificate of the server, PEM")
	deviceID := flag.String("device", "", "the device to execute the command on")
	commandID := flag.String("command", "", "a command of the device")
	paramsText := flag.String("params", "{}", "its parameters as JSON")
	flag.Parse()
	if (*deviceID == "") != (*commandID == "") {
		return errors.New("give both -device and -command, or neither")
	}
	params := &structpb.Struct{}
	if err := json.Unmarshal([]byte(*paramsText), params); err != nil {
		return fmt.Errorf("-params must be a JSON object: %w", err)
	}
	connection, err := connect(*address, *ca)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer connection.Close()
	err = listDevices(ctx, devices.NewDigitalDeviceServiceClient(connection), func(device *devices.DigitalDevice) {
		fmt.Println("device", device.GetId(), device.GetName())
	})
	if err != nil || *deviceID == "" {
		return err
	}
	client := commands.NewActuatorCommandServiceClient(connection)
	executionID, err := execute(ctx, client, *deviceID, *commandID, params)
	if err != nil {
		return err
	}
	fmt.Println("execution", executionID)
	state := commands.ExecutionState_EXECUTION_STATE_UNSPECIFIED
	err = watch(ctx, client, executionID, func(execution *commands.Execution) {
		state = execution.GetState()
		name := strings.ToLower(strings.TrimPrefix(state.String(), "EXECUTION_STATE_"))
		fmt.Println(strings.TrimSpace("state " + name + " " + execution.GetDetail()))
	})
	if err != nil {
		return err
	}
	if state != commands.ExecutionState_EXECUTION_STATE_CONVERGED && state != commands.ExecutionState_EXECUTION_STATE_ACCEPTED_NO_L4 {
		return fmt.Errorf("the execution ended as %s; see docs/executions.md", state)
	}
	return nil
}

func main() {
	err := run(context.Background())
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	var failure *PlantroomError
	if errors.As(err, &failure) {
		for _, violation := range failure.Violations {
			fmt.Fprintln(os.Stderr, " ", violation.GetField(), violation.GetDescription())
		}
	}
	os.Exit(1)
}

// Lists the devices, executes a command on one of them, and watches it until its end.
//
//	go run . -device ID -command ID -params '{"position": 40}'
//
// Without -device it lists only. Exit code 0: done as wanted; 1: it ended otherwise, or a call failed.
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

// How long a call may take in all. Streams have no end.
const deadline = 30 * time.Second

// Before a watch is begun again; each further pause is twice as long, up to 30 s.
const firstPause = 500 * time.Millisecond

// listDevices gives each device to use, page by page.
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

// execute executes a command and returns the id of the execution.
func execute(ctx context.Context, client commands.ActuatorCommandServiceClient, deviceID, commandID string, params *structpb.Struct) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	// However often this request arrives: for 7 days the same id is answered with the execution that it made.
	triggerID := rand.Text()
	answer, err := client.ExecuteCommand(ctx, &commands.ExecuteCommandRequest{Id: deviceID, CommandId: commandID, Params: params, TriggerId: &triggerID})
	if err != nil {
		return "", fmt.Errorf("execute: %w", plantroomError(err))
	}
	if !answer.GetAccepted() {
		wrong := make([]string, 0, len(answer.GetViolations()))
		for _, violation := range answer.GetViolations() {
			wrong = append(wrong, violation.GetField()+": "+violation.GetDescription())
		}
		return "", fmt.Errorf("not admitted: %s %s", answer.GetRejectionReason(), strings.Join(wrong, "; "))
	}
	return answer.GetExecutionId(), nil
}

// watch gives the execution to use after each event, until it is final. After a lost link it goes on where it was: nothing is missed.
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
		case !passing(failure.Status):
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

// passing says whether a watch goes on after it: the server or the way to it went away, or it has no room now.
func passing(code codes.Code) bool {
	return code == codes.Unavailable || code == codes.ResourceExhausted || code == codes.DeadlineExceeded
}

// follow watches on one stream, from token on, which it keeps up to date. Returns nil when the execution is final, io.EOF when the server ended the stream before.
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
			// The first answer without a token says: from here on you miss nothing. What was before has to be read.
			if execution, err = read(ctx, client, executionID); err != nil {
				return err
			}
		}
		// Not before that: if the read failed, the next link has to begin so too.
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
		return fmt.Errorf("it ended as %s; docs/executions.md says what that claims", state)
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

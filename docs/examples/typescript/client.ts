// Lists the devices, executes a command on one of them, and watches the execution until it is final.
//
//   node dist/client.js --device ID --command ID --params '{"position": 40}'
//
// Without --device it only lists the devices. Exit code 0: the command succeeded; 1: it did not, or a call failed.
import { parseArgs } from 'node:util';
import {
  createPlantroomClient,
  paginate,
  watchExecution,
  PlantroomError,
  type PlantroomClient,
} from 'plantroom-client';
import { ExecutionState, RejectionReason } from 'plantroom-client/protos/actuator_command/v2/actuator_command_service';
import { serverFlags, serverOf } from './server.js';

const { values: flags } = parseArgs({
  options: {
    ...serverFlags,
    device: { type: 'string' },
    command: { type: 'string' },
    params: { type: 'string', default: '{}' },
  },
});
if (!flags.device !== !flags.command) throw new Error('give both --device and --command, or neither');

/** Executes a command and watches it. Returns the final state. */
async function execute(
  client: PlantroomClient,
  deviceId: string,
  commandId: string,
  params: Record<string, unknown>,
): Promise<ExecutionState> {
  // The client adds a trigger ID, so the command is executed only once even if the request is retried.
  const { accepted, executionId, rejectionReason, violations } = await client.commands.executeCommand({
    id: deviceId,
    commandId,
    params,
  });
  if (!accepted) {
    console.error(`not admitted: ${RejectionReason[rejectionReason ?? 0]}`);
    for (const { field, description } of violations) console.error(`  ${field}: ${description}`);
    return ExecutionState.EXECUTION_STATE_REQUEST_REJECTED;
  }
  console.log(`execution ${executionId}`);
  let state = ExecutionState.EXECUTION_STATE_UNSPECIFIED;
  // Resumes after lost connections, until the execution is final.
  for await (const execution of watchExecution(client, executionId)) {
    ({ state } = execution);
    console.log(
      `state ${ExecutionState[state].replace('EXECUTION_STATE_', '').toLowerCase()} ${execution.detail}`.trimEnd(),
    );
  }
  return state;
}

async function run(client: PlantroomClient): Promise<boolean> {
  for await (const device of paginate(client.devices.listDigitalDevices, { limit: 100 }))
    console.log(`device ${device.id} ${device.name}`);
  if (!flags.device || !flags.command) return true;
  const state = await execute(client, flags.device, flags.command, JSON.parse(flags.params));
  return state === ExecutionState.EXECUTION_STATE_CONVERGED || state === ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4;
}

const client = createPlantroomClient(serverOf(flags));
try {
  process.exitCode = (await run(client)) ? 0 : 1;
} catch (error) {
  if (!(error instanceof PlantroomError)) throw error;
  console.error(`${error.status} ${error.reason}: ${error.message} (request ${error.requestId})`);
  for (const { field, description } of error.violations) console.error(`  ${field} ${description}`);
  process.exitCode = 1;
} finally {
  client.close();
}

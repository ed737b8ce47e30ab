import { isFinal, type ExecutionState } from '../../executions';
import { isBinary, programName } from '../../kernel/executable';
import { JsonClient } from '../call/jsonClient';
import { print, printJson, type OutputOptions } from '../output';
import type { SimulatorEvent } from '../simulate/gateway/simulatorOptions';
import { attachDemoGateway } from './demoGateway';
import { formatTimeline } from './demoTimeline';
import { startDemoServer } from './demoServer';
import { ENCODER, createDemoSite, PARAMS, type DemoSite } from './demoSite';

/** The parts of an ExecutionEvent that the demo shows, as JSON. */
interface ShownEvent {
  readonly time: string;
  readonly event: string;
  readonly from?: string;
  readonly to: ExecutionState;
  readonly source: string;
}

const REPORTED_EVENTS: readonly string[] = ['gateway.attached', 'command.taken', 'command.answered', 'uplink.sent'];

/** Runs `plantroom demo`: finishes automatically in a few seconds and removes all its data. */
export async function runDemo({ json }: OutputOptions): Promise<void> {
  const printLine = (line: string): void => (json ? undefined : print(line));
  const server = await startDemoServer();
  const stop = new AbortController();
  try {
    printLine(`A temporary server is running on ${server.target.address}.`);
    const api = new JsonClient(server.target);
    const site = await createDemoSite(api);
    printLine(
      'It has a connection "Boiler room", the devices "Heating valve" and "Office air", the command "Set position", and dashboards of them.',
    );
    const gateway = attachDemoGateway(
      server.target,
      site.connectionId,
      stop.signal,
      (event) => REPORTED_EVENTS.includes(event.event) && printLine(formatGatewayEvent(event)),
    );
    await gateway.attached;
    const executionId = await executeCommand(api, site, stop.signal, printLine);
    const execution = await api.call('ActuatorCommandService/GetExecution', { executionId });
    if (json) printJson(execution);
    else showExecution(execution['state'] as string, execution['events'] as ShownEvent[]);
    stop.abort();
    await gateway.ended;
  } finally {
    stop.abort();
    await server.remove();
  }
}

/**
 * Shows what the encoder returns, executes the command, prints every event until the execution is final, and returns
 * its id. The watch starts before, so that it shows the first event; it resolves when one of its signals aborts.
 */
async function executeCommand(
  api: JsonClient,
  { deviceId, commandId }: DemoSite,
  signal: AbortSignal,
  printLine: (line: string) => void,
): Promise<string> {
  const finished = new AbortController();
  const streamOpen = Promise.withResolvers<void>();
  const watch = api.watch(
    'ActuatorCommandService/WatchExecutions',
    { id: deviceId },
    AbortSignal.any([finished.signal, signal]),
    (response) => {
      streamOpen.resolve(); // the first response only confirms that the stream is open
      const event = response['event'] as ShownEvent | undefined;
      if (!event) return;
      printLine(
        formatLine(
          event.time,
          'server',
          `${event.event}: ${event.from ?? 'new'} -> ${event.to}  (${event.source.split(':')[0]})`,
        ),
      );
      if (isFinal(event.to)) finished.abort();
    },
  );
  await Promise.race([streamOpen.promise, watch]); // `watch` rejects if the stream cannot be opened
  const { output } = await api.call('ActuatorCommandService/PreviewEncoder', {
    id: deviceId,
    customEncoder: ENCODER,
    params: PARAMS,
  });
  printLine(
    `\nThe encoder of the command returns the bytes ${(output as { bytesHex: string }).bytesHex} for ${JSON.stringify(PARAMS)}. Executing the command:\n`,
  );
  const [{ executionId }] = await Promise.all([
    api.call('ActuatorCommandService/ExecuteCommand', { id: deviceId, commandId, params: PARAMS }),
    watch,
  ]);
  return executionId as string;
}

function formatGatewayEvent({ event, time, fields }: SimulatorEvent): string {
  const details = fields['payload'] ?? fields['values'] ?? fields['message'];
  return formatLine(
    new Date(time).toISOString(),
    'gateway',
    `${event}${details === undefined ? '' : ` ${typeof details === 'string' ? details : JSON.stringify(details)}`}`,
  );
}

/** Formats a line with the time of day (UTC) of an ISO 8601 time, with milliseconds. */
function formatLine(time: string, source: string, text: string): string {
  return `  ${time.slice(11, 23)}  ${source.padEnd(8)} ${text}`;
}

function showExecution(state: string, events: readonly ShownEvent[]): void {
  print(['', 'Timeline (what each state means):', '', ...formatTimeline(events), ''].join('\n'));
  print(
    state === 'converged'
      ? 'The execution finished as converged: the valve acknowledged, and its sensor shows the position.'
      : `The execution finished as ${state}.`,
  );
  print(
    `\nDemo finished; all temporary data was removed. Start your own server with: ${isBinary ? `${programName} serve` : 'npm start'}`,
  );
}

import { isFinal, type ExecutionState } from '../../executions';
import { isBinary, programName } from '../../kernel/thisProgram';
import { JsonClient } from '../call/jsonClient';
import { say, sayJson, type OutputOptions } from '../output';
import type { SimulatorEvent } from '../simulate/gateway/simulatorOptions';
import { attachDemoGateway } from './demoGateway';
import { pictureOf } from './demoPicture';
import { startDemoServer } from './demoServer';
import { ENCODER, makeDemoSite, PARAMS, type DemoSite } from './demoSite';

/** The parts of an ExecutionEvent that the demo shows, as JSON. */
interface ShownEvent {
  readonly time: string;
  readonly event: string;
  readonly from?: string;
  readonly to: ExecutionState;
  readonly source: string;
}

const TOLD: readonly string[] = ['gateway.attached', 'command.taken', 'command.answered', 'uplink.sent'];

/** `plantroom demo`: ends by itself in a few seconds and leaves nothing behind. */
export async function runDemo({ json }: OutputOptions): Promise<void> {
  const tell = (line: string): void => (json ? undefined : say(line));
  const server = await startDemoServer();
  const stop = new AbortController();
  try {
    tell(`A server runs on ${server.target.address}, in a folder that will be removed.`);
    const api = await JsonClient.connect(server.target);
    const site = await makeDemoSite(api);
    tell('It has a connection "Boiler room", the devices "Heating valve" and "Office air", and the command "Set position".');
    const gateway = attachDemoGateway(server.target, site.connectionId, stop.signal, (event) => TOLD.includes(event.event) && tell(gatewayText(event)));
    await gateway.attached;
    const executionId = await execute(api, site, stop.signal, tell);
    const execution = await api.call('ActuatorCommandService/GetExecution', { executionId });
    if (json) sayJson(execution);
    else showExecution(execution['state'] as string, execution['events'] as ShownEvent[]);
    stop.abort();
    await gateway.ended;
  } finally {
    stop.abort();
    await server.remove();
  }
}

/** Executes the command and tells every event until the execution is final. */
async function execute(api: JsonClient, { deviceId, commandId }: DemoSite, signal: AbortSignal, tell: (line: string) => void): Promise<string> {
  const done = new AbortController();
  const watching = Promise.withResolvers<void>();
  const watched = api.watch('ActuatorCommandService/WatchExecutions', { id: deviceId }, AbortSignal.any([done.signal, signal]), (answer) => {
    watching.resolve(); // the first answer says only that the stream is on
    const event = answer['event'] as ShownEvent | undefined;
    if (!event) return;
    tell(line(event.time, 'server', `${event.event}: ${event.from ?? 'new'} -> ${event.to}  (${event.source.split(':')[0]})`));
    if (isFinal(event.to)) done.abort();
  });
  await Promise.race([watching.promise, watched]);
  const { output } = await api.call('ActuatorCommandService/PreviewEncoder', { id: deviceId, customEncoder: ENCODER, params: PARAMS });
  tell(`\nThe command's encoder makes the bytes ${(output as { bytesHex: string }).bytesHex} of ${JSON.stringify(PARAMS)}. Execute it:\n`);
  const [{ executionId }] = await Promise.all([api.call('ActuatorCommandService/ExecuteCommand', { id: deviceId, commandId, params: PARAMS }), watched]);
  return executionId as string;
}

function gatewayText({ event, time, fields }: SimulatorEvent): string {
  const more = fields['payload'] ?? fields['values'] ?? fields['message'];
  return line(new Date(time).toISOString(), 'gateway', `${event}${more === undefined ? '' : ` ${typeof more === 'string' ? more : JSON.stringify(more)}`}`);
}

function line(time: string, who: string, what: string): string {
  return `  ${time.slice(11, 23)}  ${who.padEnd(8)} ${what}`;
}

function showExecution(state: string, events: readonly ShownEvent[]): void {
  say(['', 'Its way, and what each state claims:', '', ...pictureOf(events), ''].join('\n'));
  say(state === 'converged' ? 'The execution ended as converged: the valve acknowledged, and its sensor shows the position.' : `The execution ended as ${state}.`);
  say(`\nAll of it is removed again. Start your own: ${isBinary ? `${programName} serve` : 'npm start'}`);
}

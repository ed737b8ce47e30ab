import { newId } from '../../kernel/ids';
import { memoryStore } from '../../client/gateway';
import type { Target } from '../call/target';
import { createSimulatedDevices } from '../simulate/simulatedDevices';
import { runSimulator } from '../simulate/gateway/simulator';
import type { SimulatorEvent } from '../simulate/gateway/simulatorOptions';

/** The simulated gateway of the demo. */
interface DemoGateway {
  /** Rejects if the server refuses the gateway. */
  readonly attached: Promise<void>;
  readonly ended: Promise<void>;
}

/** Attaches a gateway whose devices respond with a delay, so that the timeline can be followed. */
export function attachDemoGateway(
  target: Target,
  connectionId: string,
  signal: AbortSignal,
  onEvent: (event: SimulatorEvent) => void,
): DemoGateway {
  const { promise: attached, resolve: resolveAttached, reject: rejectAttached } = Promise.withResolvers<void>();
  const options = {
    ...target,
    connectionId,
    gatewayId: `demo-${newId()}`,
    devices: createSimulatedDevices(['valve-1', 'room-1']),
    store: memoryStore(),
    uplinkIntervalMs: 10_000,
    answerDelayMs: 800,
    answer: 'accept',
    sendReceipts: true,
  } as const;
  const ended = runSimulator(options, signal, (event) => {
    if (event.event === 'gateway.attached') resolveAttached();
    onEvent(event);
  });
  ended.catch(rejectAttached);
  return { attached, ended };
}

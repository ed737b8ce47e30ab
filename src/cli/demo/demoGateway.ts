import { newId } from '../../kernel/ids';
import { memoryStore } from '../../client/gateway';
import type { Target } from '../call/target';
import { simulatedDevices } from '../simulate/simulatedDevices';
import { runSimulator } from '../simulate/gateway/simulator';
import type { SimulatorEvent } from '../simulate/gateway/simulatorOptions';

/** The simulated gateway of the demo. */
export interface DemoGateway {
  /** Rejects if the server does not take it. */
  readonly attached: Promise<void>;
  readonly ended: Promise<void>;
}

/** Attaches a gateway whose devices answer after a while, so that the timeline can be followed. */
export function attachDemoGateway(target: Target, connectionId: string, signal: AbortSignal, onEvent: (event: SimulatorEvent) => void): DemoGateway {
  const { promise: attached, resolve, reject } = Promise.withResolvers<void>();
  const options = {
    ...target,
    connectionId,
    gatewayId: `demo-${newId()}`,
    devices: simulatedDevices(['valve-1', 'room-1']),
    store: memoryStore(),
    uplinkIntervalMs: 10_000,
    answerDelayMs: 800,
    answer: 'accept',
    dropReceived: false,
  } as const;
  const ended = runSimulator(options, signal, (event) => {
    if (event.event === 'gateway.attached') resolve();
    onEvent(event);
  });
  ended.catch(reject);
  return { attached, ended };
}

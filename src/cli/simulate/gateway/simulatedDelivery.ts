import { setTimeout as sleep } from 'node:timers/promises';
import type { DeliveredCommand, DeliveryResult } from '../../../client/gateway';
import type { SimulatorOptions } from './simulatorOptions';

/** Has a device do a command, after a delay. `withdrawn` aborts while nothing was done yet: then nothing will be. `stop`: the whole gateway stops. */
export async function deliverToDevice(options: SimulatorOptions, command: DeliveredCommand, withdrawn: AbortSignal, stop: AbortSignal): Promise<DeliveryResult> {
  if (options.answerDelayMs > 0) await sleep(options.answerDelayMs, undefined, { signal: withdrawn }).catch(() => {}); // aborted: said below
  if (stop.aborted) return { result: 'unreachable', code: 'gateway_stopped', message: 'the gateway stopped before it was done' };
  if (withdrawn.aborted) return { result: 'unreachable', code: 'withdrawn', message: 'withdrawn before it was done' };
  return answerOfDevice(options, command);
}

function answerOfDevice({ devices, answer }: SimulatorOptions, { clientDeviceId, payload }: DeliveredCommand): DeliveryResult {
  const device = devices.find((candidate) => candidate.clientDeviceId === clientDeviceId);
  if (!device) return { result: 'unreachable', code: 'unknown_device', message: `this gateway has no device ${clientDeviceId}` };
  if (answer === 'reject') return { result: 'rejected', code: 'rejected_on_request', message: 'the simulator was told to reject commands' };
  if (answer === 'no_answer') return { result: 'no_answer', code: 'silent_on_request', message: 'the simulator was told not to let devices answer' };
  const answered = device.act(payload.kind === 'json' ? payload.value : payload.bytes);
  if (!answered.ok) return { result: 'rejected', code: answered.code, message: answered.message };
  return { result: 'accepted', message: answered.message };
}

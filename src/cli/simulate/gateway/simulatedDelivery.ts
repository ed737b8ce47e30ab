import { setTimeout as sleep } from 'node:timers/promises';
import type { DeliveredCommand, DeliveryResult } from '../../../client/gateway';
import type { SimulatorOptions } from './simulatorOptions';

/**
 * Executes a command on a device, after a delay. If `cancelSignal` aborts before that, the command is not executed.
 * `stop`: aborts when the gateway stops.
 */
export async function deliverToDevice(
  options: SimulatorOptions,
  command: DeliveredCommand,
  cancelSignal: AbortSignal,
  stop: AbortSignal,
): Promise<DeliveryResult> {
  // The error of an aborted wait is ignored, because the signals are checked below.
  if (options.answerDelayMs > 0)
    await sleep(options.answerDelayMs, undefined, { signal: cancelSignal }).catch(() => {});
  if (stop.aborted)
    return {
      result: 'unreachable',
      code: 'gateway_stopped',
      message: 'the gateway stopped before the command was executed',
    };
  if (cancelSignal.aborted)
    return { result: 'unreachable', code: 'cancelled', message: 'the command was cancelled before it was executed' };
  return executeCommand(options, command);
}

/** Executes a command on its device, or fails as the options say. */
function executeCommand(
  { devices, answer }: SimulatorOptions,
  { clientDeviceId, payload }: DeliveredCommand,
): DeliveryResult {
  const device = devices.find((candidate) => candidate.clientDeviceId === clientDeviceId);
  if (!device)
    return { result: 'unreachable', code: 'unknown_device', message: `this gateway has no device ${clientDeviceId}` };
  if (answer === 'reject')
    return {
      result: 'rejected',
      code: 'simulated_rejection',
      message: 'the simulator is configured to reject commands',
    };
  if (answer === 'no_answer')
    return {
      result: 'no_answer',
      code: 'simulated_no_response',
      message: 'the simulator is configured not to respond to commands',
    };
  const response = device.act(payload.kind === 'json' ? payload.value : payload.bytes);
  if (!response.ok) return { result: 'rejected', code: response.code, message: response.message };
  return { result: 'accepted', message: response.message };
}

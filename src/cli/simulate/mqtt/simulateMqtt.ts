import { UsageError } from '../../exit';
import { getBrokerTarget, type BrokerFlags } from '../broker/brokerFlags';
import { toAnswer, simulate, type SimulationFlags } from '../simulation';
import { createSimulatedDevices, DEFAULT_DEVICES } from '../simulatedDevices';
import { runMqttDevices } from './mqttDevices';

/** The flags of `plantroom simulate mqtt`; times in milliseconds. */
export interface MqttFlags extends SimulationFlags, BrokerFlags {
  readonly uplinkTopic: string;
  readonly commandTopic: string;
  readonly answerTopic: string;
}

/** Runs `plantroom simulate mqtt` until SIGINT, SIGTERM or the end of --duration. */
export async function simulateMqtt(flags: MqttFlags): Promise<void> {
  const options = {
    broker: getBrokerTarget(flags),
    devices: createSimulatedDevices(flags.devices ?? DEFAULT_DEVICES),
    uplinkTopic: checkTemplate(flags.uplinkTopic, '--uplink-topic'),
    commandTopic: checkTemplate(flags.commandTopic, '--command-topic'),
    answerTopic: checkTemplate(flags.answerTopic, '--answer-topic'),
    uplinkIntervalMs: flags.interval,
    answerDelayMs: flags.delay,
    answer: toAnswer(flags),
  };
  await simulate(flags, async (signal, onEvent) => await runMqttDevices(options, signal, onEvent));
}

function checkTemplate(template: string, option: string): string {
  if (template.includes('{clientDeviceId}') && !/[+#]/.test(template)) return template;
  throw new UsageError(
    `${option} ${JSON.stringify(template)} must contain {clientDeviceId} and no wildcard, for example plantroom/{clientDeviceId}/up`,
  );
}

import { UsageError } from '../../exit';
import { brokerTargetOf, type BrokerFlags } from '../broker/brokerFlags';
import { answerOf, play, type PlayFlags } from '../playing';
import { simulatedDevices, USUAL_DEVICES } from '../simulatedDevices';
import { runMqttDevices } from './mqttDevices';

/** What `plantroom simulate mqtt` is given; times in milliseconds. */
export interface MqttFlags extends PlayFlags, BrokerFlags {
  readonly uplinkTopic: string;
  readonly commandTopic: string;
  readonly answerTopic: string;
}

/** `plantroom simulate mqtt`: until SIGINT, SIGTERM or the end of --for. */
export async function simulateMqtt(flags: MqttFlags): Promise<void> {
  const options = {
    broker: brokerTargetOf(flags),
    devices: simulatedDevices(flags.devices ?? USUAL_DEVICES),
    uplinkTopic: checked(flags.uplinkTopic, '--uplink-topic'),
    commandTopic: checked(flags.commandTopic, '--command-topic'),
    answerTopic: checked(flags.answerTopic, '--answer-topic'),
    uplinkIntervalMs: flags.interval,
    answerDelayMs: flags.delay,
    answer: answerOf(flags),
  };
  await play(flags, async (signal, onEvent) => await runMqttDevices(options, signal, onEvent));
}

function checked(template: string, option: string): string {
  if (template.includes('{clientDeviceId}') && !/[+#]/.test(template)) return template;
  throw new UsageError(`${option} ${JSON.stringify(template)} must hold {clientDeviceId} and no wildcard, for example plantroom/{clientDeviceId}/up`);
}

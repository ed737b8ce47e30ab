import type { ConnectionCheck } from '../../connector';
import type { JsonObject } from '../../connectorType';
import { brokerSettingsOf } from '../broker/brokerConfiguration';
import { tryBroker } from '../broker/brokerTrial';
import { mqttSettingsOf } from './mqttSettings';
import { filterOfTemplate } from './topicTemplate';

/** Tries a configuration out: connects under a name of its own and subscribes; publishes nothing. */
export async function tryMqtt(configuration: JsonObject, signal: AbortSignal): Promise<ConnectionCheck[]> {
  const { uplinkTopic, answer } = mqttSettingsOf(configuration);
  const filters = [filterOfTemplate(uplinkTopic), ...(answer?.kind === 'topic' ? [filterOfTemplate(answer.answerTopic)] : [])];
  const checks = await tryBroker(brokerSettingsOf(configuration, ''), filters, signal);
  const isOld = checks.some(({ name, message }) => name === 'protocol' && message === 'MQTT 3.1.1');
  return [...(isOld ? checks.map((check) => (check.name === 'protocol' ? oldProtocol(answer?.kind === 'response_topic') : check)) : checks), PUBLISH_ALLOWED];
}

const PUBLISH_ALLOWED: ConnectionCheck = { name: 'publish_allowed', outcome: 'skipped', message: 'a broker tells it only when something is published; a command that it refuses ends as transport_rejected' };

function oldProtocol(needsMqtt5: boolean): ConnectionCheck {
  const name = 'protocol';
  if (needsMqtt5) return { name, outcome: 'failed', message: 'the broker speaks MQTT 3.1.1, which has no response topics; let devices answer on a topic (kind `topic`), or use a broker that speaks MQTT 5' };
  return { name, outcome: 'warning', message: 'no_message_expiry: with MQTT 3.1.1 a broker that keeps a command for a device that is away may deliver it late; use a broker that speaks MQTT 5' };
}

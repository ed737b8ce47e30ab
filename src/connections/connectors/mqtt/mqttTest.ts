import type { ConnectionCheck } from '../../connector';
import type { JsonObject } from '../../connectorType';
import { getBrokerSettings } from '../broker/brokerConfiguration';
import { testBroker } from '../broker/brokerTest';
import { getMqttSettings } from './mqttSettings';
import { toFilter } from './topicTemplate';

/** Tests a configuration: connects with a temporary client id and subscribes; publishes nothing. */
export async function testMqtt(configuration: JsonObject, signal: AbortSignal): Promise<ConnectionCheck[]> {
  const { uplinkTopic, answer } = getMqttSettings(configuration);
  const filters = [toFilter(uplinkTopic), ...(answer?.kind === 'topic' ? [toFilter(answer.answerTopic)] : [])];
  const checks = await testBroker(getBrokerSettings(configuration, ''), { filters, signal });
  const isMqtt3 = checks.some(({ name, message }) => name === 'protocol' && message === 'MQTT 3.1.1');
  return [
    ...(isMqtt3
      ? checks.map((check) => (check.name === 'protocol' ? checkOldProtocol(answer?.kind === 'response_topic') : check))
      : checks),
    PUBLISH_ALLOWED,
  ];
}

const PUBLISH_ALLOWED: ConnectionCheck = {
  name: 'publish_allowed',
  outcome: 'skipped',
  message:
    'cannot be tested in advance: the broker reports missing publish permission only when a command is sent, which then finishes as transport_rejected',
};

/** Returns the check of a broker that supports only MQTT 3.1.1: failed if the configuration needs MQTT 5. */
function checkOldProtocol(needsMqtt5: boolean): ConnectionCheck {
  const name = 'protocol';
  if (needsMqtt5)
    return {
      name,
      outcome: 'failed',
      message:
        'the broker only supports MQTT 3.1.1, which has no response topics; let devices respond on a topic (kind `topic`), or use a broker that supports MQTT 5',
    };
  return {
    name,
    outcome: 'warning',
    message:
      'no_message_expiry: with MQTT 3.1.1 a broker that stores a command for a disconnected device may deliver it late; use a broker that supports MQTT 5',
  };
}

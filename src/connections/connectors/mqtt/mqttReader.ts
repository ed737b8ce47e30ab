import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { InexactNumber } from '../../../kernel/inexactNumber';
import { findJsonProblem, isObject } from '../../../kernel/jsonValue';
import type { UplinkIdentity, UplinkMessage } from '../../connector';
import { looksLikeJson, readReceivedJson } from '../../receivedJson';
import { findTimeProblem, readSampleTime } from '../../sampleTime';
import type { BrokerMessage } from '../broker/brokerTraffic';
import { getConnectorKeyValue } from './jsonPath';
import type { MqttSettings } from './mqttSettings';
import { MQTT } from './mqttType';
import { TopicReader } from './topicTemplate';

/** A message of a device, or the reason why it can never be stored. */
type ReadUplink = DeviceUplink | { readonly reason: string };

/** A message of a device without its organization and connection. */
export type DeviceUplink = Omit<UplinkMessage, 'organizationId' | 'connectionId'>;

const MAX_BYTES = 64 * 1024;
const NOT_UTF8 = 'text_not_utf8: a text has bytes that are not UTF-8, which are stored as U+FFFD; send text in UTF-8';

/** Reads the messages of devices. */
export class MqttReader {
  private readonly topics: TopicReader;

  constructor(private readonly settings: Pick<MqttSettings, 'uplinkTopic' | 'timePath' | 'timeZone' | 'uplinkIdPath'>) {
    this.topics = new TopicReader(settings.uplinkTopic);
  }

  /** Returns whether the topic is one of uplinks. */
  isUplinkTopic(topic: string): boolean {
    return this.topics.matches(topic);
  }

  /** Returns the device id in a topic of uplinks; undefined if the topic is another one. */
  findDeviceId(topic: string): string | undefined {
    return this.topics.findDeviceId(topic);
  }

  /** Reads an uplink, or the reason why it can never be stored; undefined if the topic is not one of uplinks. */
  read(message: BrokerMessage): ReadUplink | undefined {
    const deviceText = this.topics.findDeviceId(message.topic);
    if (deviceText === undefined) return undefined;
    const clientDeviceId = MQTT.findClientDeviceId(deviceText);
    if (clientDeviceId === undefined)
      return {
        reason: `client_device_id_invalid: the device id in the topic is invalid; an id has ${MQTT.clientDeviceIdForm}`,
      };
    const content = readPayload(message.payload);
    if ('reason' in content) return content;
    const { payload } = content;
    const { timePath, timeZone, uplinkIdPath } = this.settings;
    const json = payload.kind === 'json' ? payload.value : {};
    const timeValue = timePath === undefined ? undefined : getConnectorKeyValue(json, timePath);
    const identity =
      uplinkIdPath === undefined ? undefined : createIdentity(clientDeviceId, getConnectorKeyValue(json, uplinkIdPath));
    return {
      clientDeviceId,
      identity: identity ?? message.identity,
      ...content,
      ...readSampleTime(timeValue, timeZone),
      timeSource: 'device',
      clock: undefined,
      fPort: undefined,
      receivedAt: message.receivedAt,
      isBuffered: message.isBuffered || message.retained,
      isRetained: message.retained,
    };
  }

  /** Reads a retained uplink. Undefined if it is no valid uplink, or its own time does not show how old it is. */
  readRetained(message: BrokerMessage): DeviceUplink | undefined {
    const read = this.read(message);
    if (!read || 'reason' in read || read.time === undefined || read.time > message.receivedAt) return undefined;
    return findTimeProblem(read, message.receivedAt) ? undefined : read;
  }
}

/**
 * Reads a payload. JSON that is not an object becomes `{"value": …}` and also keeps the bytes, because raw bytes of a
 * device may look like digits. Everything else is kept as bytes, with the reason if it looks like JSON. Text that is
 * not UTF-8 is reported too.
 */
function readPayload(
  bytes: Buffer,
): Pick<UplinkMessage, 'payload' | 'encoded' | 'unreadable'> | { readonly reason: string } {
  if (bytes.length > MAX_BYTES)
    return { reason: `payload_too_large: the payload has ${bytes.length} bytes; send at most ${MAX_BYTES}` };
  const parsed = readReceivedJson(bytes);
  if ('reason' in parsed)
    return { payload: { kind: 'bytes', bytes }, unreadable: looksLikeJson(bytes) ? parsed.reason : undefined };
  const isPayload = isObject(parsed.value) && !(parsed.value instanceof InexactNumber);
  const value = isPayload ? parsed.value : { value: parsed.value };
  const problem = findJsonProblem(value);
  if (problem !== undefined) return { reason: `payload_invalid: the payload ${problem}` };
  return {
    payload: { kind: 'json', value },
    ...(value !== parsed.value && { encoded: bytes }),
    ...(!isUtf8(bytes) && { unreadable: NOT_UTF8 }),
  };
}

/**
 * Creates the identity of a message from the id in its payload. Ids are only unique per device, so the identity
 * includes the device. It is a hash, because ids may be long. Undefined if the id is empty, or neither a text nor a
 * number.
 */
function createIdentity(clientDeviceId: string, value: unknown): UplinkIdentity | undefined {
  // Large ids must not be rounded: two of them would become the same.
  const isLargeNumber = value instanceof InexactNumber && Number.isFinite(value.nearest);
  const messageId = isLargeNumber ? value.text : value;
  if ((typeof messageId !== 'string' && typeof messageId !== 'number') || messageId === '') return undefined;
  return {
    kind: 'id',
    uplinkId: createHash('sha256')
      .update(JSON.stringify([clientDeviceId, messageId]))
      .digest('base64url'),
  };
}

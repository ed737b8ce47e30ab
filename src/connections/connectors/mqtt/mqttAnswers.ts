import { normalizeId, UUID } from '../../../kernel/ids';
import { findJsonProblem } from '../../../kernel/jsonValue';
import type { Evidence } from '../../connector';
import type { BrokerMessage } from '../broker/brokerTraffic';
import { getConnectorKeyValue } from './jsonPath';
import { readReceivedJson } from '../../receivedJson';
import type { AnswerMapping, AnswerStatus, MqttSettings } from './mqttSettings';
import { toFilter, TopicReader } from './topicTemplate';

/** The response of a device to a command. */
interface MqttAnswer {
  readonly executionId: string;
  readonly evidence: Evidence;
}

const MAX_BYTES = 64 * 1024;
const MAX_CODE_LENGTH = 64;
const MAX_MESSAGE_LENGTH = 1000;
const UNPRINTABLE = /[\p{Cc}\p{Cs}]/gu;

/** Reads the responses of devices to commands. */
export class MqttAnswers {
  /** The filter to subscribe to. */
  readonly filter: string;
  private readonly topics: TopicReader;

  /** `defaultTopic`: used if the mapping has no response topic. */
  constructor(
    private readonly mapping: AnswerMapping,
    defaultTopic: string,
  ) {
    const template = mapping.kind === 'topic' ? mapping.answerTopic : (mapping.responseTopic ?? defaultTopic);
    this.filter = toFilter(template);
    this.topics = new TopicReader(template);
  }

  /** The MQTT 5 response topic of commands; undefined if devices know where to respond. */
  get responseTopic(): string | undefined {
    return this.mapping.kind === 'response_topic' ? this.filter : undefined;
  }

  /** Returns whether the topic is one of responses. */
  isResponseTopic(topic: string): boolean {
    return this.topics.matches(topic);
  }

  /** Reads a response. Undefined if it names no execution or is invalid, which does not count as a rejection. */
  read({ topic, payload, correlationData, receivedAt }: BrokerMessage): MqttAnswer | undefined {
    const parsed = payload.length > MAX_BYTES ? undefined : findReceivedValue(payload);
    // A payload that is not JSON is only valid if no status is read from it.
    const isInvalid = parsed
      ? findJsonProblem(parsed.value) !== undefined
      : this.mapping.status.statusPath !== undefined;
    if (isInvalid) return undefined;
    const json = parsed?.value;
    const correlation =
      this.mapping.kind === 'topic'
        ? getConnectorKeyValue(json, this.mapping.correlationPath)
        : correlationData?.toString();
    const executionId = typeof correlation === 'string' ? normalizeId(correlation.trim()) : '';
    if (!UUID.test(executionId)) return undefined;
    return {
      executionId,
      evidence: {
        ...toEvidence(this.mapping.status, json),
        receivedAt,
        clientDeviceId: this.topics.findDeviceId(topic) || undefined, // empty: the topic names no device
      },
    };
  }
}

/** Creates the reader of responses; undefined if the configuration has none. `clientId`: that of the connection. */
export function createResponseReader({ answer }: MqttSettings, clientId: string): MqttAnswers | undefined {
  return answer && new MqttAnswers(answer, `plantroom/${clientId.replace(/[+#/]/g, '_')}/answers`);
}

/** Converts a response to evidence: success if no status is configured, or if the status is one of `okValues`. */
function toEvidence({ statusPath, okValues, messagePath }: AnswerStatus, json: unknown): Evidence {
  const message =
    messagePath === undefined ? '' : formatText(getConnectorKeyValue(json, messagePath), MAX_MESSAGE_LENGTH);
  if (statusPath === undefined) return { kind: 'ack', message };
  const status = getConnectorKeyValue(json, statusPath);
  const code = formatText(status, MAX_CODE_LENGTH);
  if (okValues.includes(status)) return { kind: 'ack', code, message };
  return {
    kind: 'negative',
    code: code || 'no_status',
    message:
      message || (status === undefined ? `the response has no ${statusPath}` : 'the device rejected the command'),
  };
}

/** Returns the value of a JSON response; undefined if it cannot be read. The value may itself be null. */
function findReceivedValue(payload: Buffer): { readonly value: unknown } | undefined {
  const read = readReceivedJson(payload);
  return 'reason' in read ? undefined : read;
}

/** Formats a value as text without control characters, at most `maxLength` characters; JSON unless it is a text. */
function formatText(value: unknown, maxLength: number): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  // Cut first to avoid splitting a very long text: a character has at most 2 UTF-16 code units.
  return Array.from(text.slice(0, 2 * maxLength).replace(UNPRINTABLE, '?'))
    .slice(0, maxLength)
    .join('');
}

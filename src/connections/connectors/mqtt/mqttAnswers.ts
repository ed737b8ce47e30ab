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
/** How many characters of a response that is not understood are shown. */
const MAX_SHOWN_LENGTH = 200;
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

  /**
   * Reads a response. Undefined if it names no execution, which does not count as a rejection. A response that says
   * neither success nor rejection is `answer_not_understood`.
   */
  read({ topic, payload, correlationData, receivedAt }: BrokerMessage): MqttAnswer | undefined {
    const json = readJson(payload);
    const correlation =
      this.mapping.kind === 'topic'
        ? getConnectorKeyValue(json, this.mapping.correlationPath)
        : correlationData?.toString();
    const executionId = typeof correlation === 'string' ? normalizeId(correlation.trim()) : '';
    if (!UUID.test(executionId)) return undefined;
    return {
      executionId,
      evidence: {
        ...toEvidence(this.mapping.status, json, payload),
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

/** Reads the JSON of a response; undefined if it is too large, no JSON, or not valid here. */
function readJson(payload: Buffer): unknown {
  if (payload.length > MAX_BYTES) return undefined;
  const read = readReceivedJson(payload);
  return 'value' in read && findJsonProblem(read.value) === undefined ? read.value : undefined;
}

/**
 * Converts a response to evidence: success if no status is configured, or if the status is one of `okValues`. Another
 * status of the same type as one of `okValues` is a rejection. Everything else is not understood.
 */
function toEvidence({ statusPath, okValues, messagePath }: AnswerStatus, json: unknown, payload: Buffer): Evidence {
  const message =
    messagePath === undefined ? '' : formatText(getConnectorKeyValue(json, messagePath), MAX_MESSAGE_LENGTH);
  if (statusPath === undefined) return { kind: 'ack', message };
  const status = getConnectorKeyValue(json, statusPath);
  const code = formatText(status, MAX_CODE_LENGTH);
  if (status !== undefined && okValues.includes(status)) return { kind: 'ack', code, message };
  const problem = findStatusProblem(statusPath, okValues, json, status);
  if (problem === undefined) return { kind: 'negative', code, message: message || 'the device rejected the command' };
  return {
    kind: 'answer_not_understood',
    message: `${problem}: ${formatText(payload.toString('utf8', 0, 4 * MAX_SHOWN_LENGTH), MAX_SHOWN_LENGTH)}`,
  };
}

/** Returns why a status that is not one of `okValues` says nothing about the command; undefined if it is a rejection. */
function findStatusProblem(
  statusPath: string,
  okValues: readonly unknown[],
  json: unknown,
  status: unknown,
): string | undefined {
  if (json === undefined) return `the response is not valid JSON of at most ${MAX_BYTES} bytes`;
  if (status === undefined || status === '') return `the response has no \`${statusPath}\``;
  const hasKnownType = status !== null && okValues.some((value) => typeof value === typeof status && value !== null);
  return hasKnownType ? undefined : `\`${statusPath}\` in the response does not have the type of an okValue`;
}

/** Formats a value as text without control characters, at most `maxLength` characters; JSON unless it is a text. */
function formatText(value: unknown, maxLength: number): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  // Cut first to avoid splitting a very long text: a character has at most 2 UTF-16 code units.
  return Array.from(text.slice(0, 2 * maxLength).replace(UNPRINTABLE, '?'))
    .slice(0, maxLength)
    .join('');
}

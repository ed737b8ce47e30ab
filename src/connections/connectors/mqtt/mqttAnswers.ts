import { jsonProblem } from '../../../kernel/jsonValue';
import type { Evidence } from '../../connector';
import type { BrokerMessage } from '../broker/brokerTraffic';
import { valueAtPath } from './jsonPath';
import { parse } from './mqttReader';
import type { AnswerMapping, AnswerStatus } from './mqttSettings';
import { filterOfTemplate, TopicReader } from './topicTemplate';

/** What a device answered to a command. */
export interface MqttAnswer {
  readonly executionId: string;
  readonly evidence: Evidence;
}

const MOST_BYTES = 64 * 1024;
const EXECUTION_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const LONGEST_CODE = 64;
const LONGEST_MESSAGE = 1000;
const UNPRINTABLE = /[\p{Cc}\p{Cs}]/gu;

/** Reads the answers of devices to commands. */
export class MqttAnswers {
  /** What to subscribe to. */
  readonly filter: string;
  private readonly topics: TopicReader;

  /** `usualTopic`: where the mapping names no response topic. */
  constructor(
    private readonly mapping: AnswerMapping,
    usualTopic: string,
  ) {
    const template = mapping.kind === 'topic' ? mapping.answerTopic : (mapping.responseTopic ?? usualTopic);
    this.filter = filterOfTemplate(template);
    this.topics = new TopicReader(template);
  }

  /** Where a command asks for its answer, with MQTT 5; undefined: the device knows. */
  get responseTopic(): string | undefined {
    return this.mapping.kind === 'response_topic' ? this.filter : undefined;
  }

  /** Whether a message came where answers come. */
  isFor(topic: string): boolean {
    return this.topics.read(topic) !== undefined;
  }

  /** Undefined: it names no execution, or cannot be read, which does not mean that it is a negative one. */
  read({ topic, payload, correlationData, receivedAt }: BrokerMessage): MqttAnswer | undefined {
    const parsed = payload.length > MOST_BYTES ? undefined : parse(payload);
    if (parsed ? jsonProblem(parsed.value) !== undefined : this.mapping.status.statusPath !== undefined) return undefined;
    const json = parsed?.value;
    const id = this.mapping.kind === 'topic' ? valueAtPath(json, this.mapping.correlationPath) : correlationData?.toString();
    if (typeof id !== 'string' || !EXECUTION_ID.test(id)) return undefined;
    return { executionId: id, evidence: { ...evidenceOf(this.mapping.status, json), receivedAt, clientDeviceId: this.topics.read(topic) || undefined } };
  }
}

function evidenceOf({ statusPath, okValues, messagePath }: AnswerStatus, json: unknown): Evidence {
  const message = messagePath === undefined ? '' : textOf(valueAtPath(json, messagePath), LONGEST_MESSAGE);
  if (statusPath === undefined) return { kind: 'ack', message };
  const status = valueAtPath(json, statusPath);
  const code = textOf(status, LONGEST_CODE);
  if (okValues.includes(status)) return { kind: 'ack', code, message };
  return { kind: 'negative', code: code || 'no_status', message: message || (status === undefined ? `the answer has no ${statusPath}` : 'the device answered negatively') };
}

function textOf(value: unknown, most: number): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return Array.from(text.slice(0, 2 * most).replace(UNPRINTABLE, '?')).slice(0, most).join('');
}

import type { JsonObject } from '../../connectorType';
import { readText } from '../broker/brokerConfiguration';

/**
 * How devices respond to commands. `okValues` is empty if `statusPath` is undefined: then every response is a success.
 */
export type AnswerMapping =
  | { readonly kind: 'response_topic'; readonly responseTopic: string | undefined; readonly status: AnswerStatus }
  | {
      readonly kind: 'topic';
      readonly answerTopic: string;
      readonly correlationPath: string;
      readonly status: AnswerStatus;
    };

/** How a response reports success. */
export interface AnswerStatus {
  readonly statusPath: string | undefined;
  readonly okValues: readonly unknown[];
  readonly messagePath: string | undefined;
}

/** The topics and paths of a valid configuration. */
export interface MqttSettings {
  readonly uplinkTopic: string;
  /** Undefined: each command has its own topic. */
  readonly downlinkTopic: string | undefined;
  readonly allowedCommandTopics: readonly string[];
  readonly timePath: string | undefined;
  /** The IANA time zone of times without an offset; undefined: they name no instant. */
  readonly timeZone: string | undefined;
  readonly uplinkIdPath: string | undefined;
  readonly answer: AnswerMapping | undefined;
}

/** Reads a valid configuration. */
export function getMqttSettings(configuration: JsonObject): MqttSettings {
  const { uplinkTopic, allowedCommandTopics } = configuration;
  return {
    uplinkTopic: String(uplinkTopic),
    downlinkTopic: readText(configuration['downlinkTopic']),
    allowedCommandTopics: Array.isArray(allowedCommandTopics) ? allowedCommandTopics.map(String) : [],
    timePath: readText(configuration['timePath']),
    timeZone: readText(configuration['timeZone']),
    uplinkIdPath: readText(configuration['uplinkIdPath']),
    answer: parseAnswer(configuration['answer']),
  };
}

/** Reads how devices respond; undefined if the configuration has no `answer`. */
function parseAnswer(value: unknown): AnswerMapping | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const answer = value as JsonObject;
  const { okValues } = answer;
  const status = {
    statusPath: readText(answer['statusPath']),
    okValues: Array.isArray(okValues) ? (okValues as unknown[]) : [],
    messagePath: readText(answer['messagePath']),
  };
  if (answer['kind'] === 'response_topic')
    return { kind: 'response_topic', responseTopic: readText(answer['responseTopic']), status };
  return {
    kind: 'topic',
    answerTopic: String(answer['answerTopic']),
    correlationPath: String(answer['correlationPath']),
    status,
  };
}

import type { JsonObject } from '../../connectorType';

/** How devices answer commands. `okValues`: none where `statusPath` is undefined, then every answer is a good one. */
export type AnswerMapping =
  | { readonly kind: 'response_topic'; readonly responseTopic: string | undefined; readonly status: AnswerStatus }
  | { readonly kind: 'topic'; readonly answerTopic: string; readonly correlationPath: string; readonly status: AnswerStatus };

/** How an answer tells whether it is a good one. */
export interface AnswerStatus {
  readonly statusPath: string | undefined;
  readonly okValues: readonly unknown[];
  readonly messagePath: string | undefined;
}

/** What a checked configuration says of topics and payloads. */
export interface MqttSettings {
  readonly uplinkTopic: string;
  /** Undefined: each command names its own. */
  readonly downlinkTopic: string | undefined;
  readonly allowedCommandTopics: readonly string[];
  readonly timePath: string | undefined;
  readonly uplinkIdPath: string | undefined;
  readonly answer: AnswerMapping | undefined;
}

/** Reads a configuration that was checked. */
export function mqttSettingsOf(configuration: JsonObject): MqttSettings {
  const { uplinkTopic, allowedCommandTopics } = configuration;
  return {
    uplinkTopic: String(uplinkTopic),
    downlinkTopic: textOf(configuration['downlinkTopic']),
    allowedCommandTopics: Array.isArray(allowedCommandTopics) ? allowedCommandTopics.map(String) : [],
    timePath: textOf(configuration['timePath']),
    uplinkIdPath: textOf(configuration['uplinkIdPath']),
    answer: answerOf(configuration['answer']),
  };
}

function answerOf(value: unknown): AnswerMapping | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const answer = value as JsonObject;
  const { okValues } = answer;
  const status = { statusPath: textOf(answer['statusPath']), okValues: Array.isArray(okValues) ? (okValues as unknown[]) : [], messagePath: textOf(answer['messagePath']) };
  if (answer['kind'] === 'response_topic') return { kind: 'response_topic', responseTopic: textOf(answer['responseTopic']), status };
  return { kind: 'topic', answerTopic: String(answer['answerTopic']), correlationPath: String(answer['correlationPath']), status };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

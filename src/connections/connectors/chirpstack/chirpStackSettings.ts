import type { JsonObject } from '../../connectorType';
import type { ChirpStackCodec } from './chirpStackEvent';
import { JSON_CODEC } from './chirpStackJson';
import { PROTOBUF } from './chirpStackMessages';
import { ChirpStackReader } from './chirpStackReader';
import { ChirpStackTopics, DEFAULT_TOPICS } from './chirpStackTopics';

/** What a configuration makes of the network server's side; that of the broker is elsewhere. */
export interface ChirpStackSettings {
  readonly topics: ChirpStackTopics;
  readonly codec: ChirpStackCodec;
  readonly reader: ChirpStackReader;
}

/** Assumes a configuration that was checked. */
export function chirpStackSettings(configuration: JsonObject): ChirpStackSettings {
  const { eventTopic, commandTopic, encoding } = configuration;
  const applicationId = String(configuration['applicationId']).toLowerCase();
  const codec = encoding === 'protobuf' ? PROTOBUF : JSON_CODEC;
  const topics = new ChirpStackTopics(textOr(eventTopic, DEFAULT_TOPICS.eventTopic), textOr(commandTopic, DEFAULT_TOPICS.commandTopic), applicationId);
  return { topics, codec, reader: new ChirpStackReader(topics, codec, applicationId) };
}

function textOr(given: unknown, usual: string): string {
  return typeof given === 'string' ? given : usual;
}

import type { JsonObject } from '../../connectorType';
import { readText } from '../broker/brokerConfiguration';
import type { ChirpStackCodec } from './chirpStackEvent';
import { JSON_CODEC } from './chirpStackJson';
import { PROTOBUF_CODEC } from './chirpStackMessages';
import { ChirpStackReader } from './chirpStackReader';
import { ChirpStackTopics, DEFAULT_TOPICS } from './chirpStackTopics';

/** The settings of the network server in a configuration; those of the broker are separate. */
export interface ChirpStackSettings {
  readonly topics: ChirpStackTopics;
  readonly codec: ChirpStackCodec;
  readonly reader: ChirpStackReader;
}

/** Reads a valid configuration. */
export function getChirpStackSettings(configuration: JsonObject): ChirpStackSettings {
  const { eventTopic, commandTopic, encoding } = configuration;
  const applicationId = String(configuration['applicationId']).toLowerCase();
  const codec = encoding === 'protobuf' ? PROTOBUF_CODEC : JSON_CODEC;
  const topics = new ChirpStackTopics(
    readText(eventTopic) ?? DEFAULT_TOPICS.eventTopic,
    readText(commandTopic) ?? DEFAULT_TOPICS.commandTopic,
    applicationId,
  );
  return { topics, codec, reader: new ChirpStackReader(topics, codec, applicationId) };
}

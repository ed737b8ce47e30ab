import type { CommandDefinition } from '../../src/gen/actuator_command/v2/actuator_command_service';
import type { Transport } from './brokerPoints';
import { APPLICATION_ID } from './loraNetwork';

/** How devices are reached and what they are told. */
export interface PlantKind {
  readonly connectorId: string;
  readonly configuration: Readonly<Record<string, unknown>>;
  idOf(n: number): string;
  /** Where their uplinks hold the position. */
  readonly sourcePath: string;
  /** What is sent beside what to do. */
  readonly alsoSent: Readonly<Record<string, string>>;
  /** What the transport needs of the n-th command. */
  commandOf(n: number): Partial<CommandDefinition>;
}

/** Devices behind a gateway. */
export const GATEWAY_PLANT: PlantKind = { connectorId: 'gateway', configuration: {}, idOf: (n) => `valve-${n}`, sourcePath: 'position', alsoSent: {}, commandOf: () => ({}) };

/** Devices behind a broker. */
export function plantKind(transport: Transport, url: string): PlantKind {
  if (transport === 'chirpstack') {
    return { connectorId: 'chirpstack', configuration: { url, applicationId: APPLICATION_ID, encoding: 'json' }, idOf: (n) => `00000000000000${n.toString(16).padStart(2, '0')}`, sourcePath: 'object.position', alsoSent: {}, commandOf: everyOtherConfirmed };
  }
  const answer = { kind: 'topic', answerTopic: 'plant/{clientDeviceId}/answer', correlationPath: 'id', statusPath: 'status', okValues: ['ok'] };
  const configuration = { url, uplinkTopic: 'plant/{clientDeviceId}/up', downlinkTopic: 'plant/{clientDeviceId}/command', ...(transport === 'mqtt_answer' && { answer }) };
  return { connectorId: 'mqtt', configuration, idOf: (n) => `valve-${n}`, sourcePath: 'position', alsoSent: { id: '{{execution.id}}' }, commandOf: () => ({}) };
}

function everyOtherConfirmed(n: number): Partial<CommandDefinition> {
  return { fPort: 10, confirmed: n % 2 === 1 };
}

import { isDeepStrictEqual } from 'node:util';
import { DomainError, type Violation } from '../../kernel/errors';
import { connectionDamaged, type Connection, type SealedSecrets } from '../connection';
import type { OpenConnection } from '../connector';
import type { JsonObject } from '../connectorType';
import type { SecretBox } from './secretBox';
import { secretFieldsOf, secretPlaceFieldsOf, withoutNullSecrets, withoutSecrets } from './secretFields';

/** The part of a connection that its secrets are bound to. */
export type SecretsPlace = Pick<Connection, 'id' | 'organizationId' | 'connectorId'>;

/** Takes the secret fields of connections out of their configuration, encrypts them, and gives them back to those who connect. */
export class ConnectionSecrets {
  constructor(private readonly box: SecretBox) {}

  /** A connection as its connector gets it. Throws `secrets_unreadable`, which names the fields, `connection_damaged`. */
  open(connection: Connection): OpenConnection {
    if (connection.damaged) throw connectionDamaged(connection.id, connection.damaged);
    return { connection, settings: { ...connection.configuration, ...this.openAll(connection, connection.sealedSecrets) } };
  }

  /** Sees to it that no second key is made beside secrets of one that was lost. `isAnySealed`: whether any connection has secrets. Throws `secrets_unreadable`. */
  async checkKey(connectorId: string, given: JsonObject, isAnySealed: () => Promise<boolean>): Promise<void> {
    if (!this.box.isFirst || freshSecrets(connectorId, given).length === 0 || !(await isAnySealed())) return;
    const message = "the server's key for secrets (secrets.key in its data folder) is missing, and there are secrets that were encrypted with it; put it back. If it is lost, make another one there (openssl rand -base64 32), and give all secrets again";
    throw new DomainError('conflict', 'secrets_unreadable', message);
  }

  /**
   * What is stored of a configuration: `given` replaces what was there; a secret field that it lacks stays as it was (`before`), one that
   * is null is removed. Throws `secrets_unreadable` if nothing can be encrypted.
   */
  store(place: SecretsPlace, given: JsonObject, before: SealedSecrets): Pick<Connection, 'configuration' | 'sealedSecrets'> {
    const sealed = freshSecrets(place.connectorId, given).map(([name, value]) => [name, this.box.seal(boundTo(place, name), value)] as const);
    return { configuration: withoutSecrets(place.connectorId, given), sealedSecrets: { ...kept(given, before), ...Object.fromEntries(sealed) } };
  }

  /**
   * What is wrong with a change that would send stored secrets to another place: whoever may change a connection may not read its secrets, and
   * to have them sent to a listener of one's own is to read them. Each has to be given again, or removed.
   */
  checkPlace({ connectorId, configuration, sealedSecrets }: Connection, given: JsonObject): Violation[] {
    const moved = secretPlaceFieldsOf(connectorId).filter((name) => !isDeepStrictEqual(configuration[name], given[name]));
    if (moved.length === 0) return [];
    const places = moved.map((name) => `\`${name}\``).join(', ');
    const description = `give it again, or null to remove it: ${places} changed, and a stored secret is sent only to the place that it was given for`;
    return Object.keys(kept(given, sealedSecrets)).map((name) => ({ field: `configuration.${name}`, description }));
  }

  /** A configuration as a change makes it, with all its secret fields, those that stay too; checkPlace says whether they may. Throws `secrets_unreadable`, which names those that have to be given again. */
  merged(connection: Connection, given: JsonObject): JsonObject {
    return { ...withoutNullSecrets(connection.connectorId, given), ...this.openAll(connection, kept(given, connection.sealedSecrets)) };
  }

  private openAll(place: SecretsPlace, sealed: SealedSecrets): JsonObject {
    try {
      return Object.fromEntries(Object.entries(sealed).map(([name, text]) => [name, this.box.open(boundTo(place, name), text)]));
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      const names = Object.keys(sealed).map((name) => `\`${name}\``).join(', ');
      throw new DomainError(error.kind, error.reason, `the secret fields ${names} cannot be read: ${error.message}`, { cause: error, metadata: { connection_id: place.id } });
    }
  }
}

function freshSecrets(connectorId: string, given: JsonObject): (readonly [name: string, value: unknown])[] {
  const secret = secretFieldsOf(connectorId);
  return Object.entries(given).filter(([name, value]) => secret.includes(name) && value !== null);
}

function kept(given: JsonObject, before: SealedSecrets): SealedSecrets {
  return Object.fromEntries(Object.entries(before).filter(([name]) => !Object.hasOwn(given, name)));
}

/** What a secret field is bound to. */
export function boundTo({ organizationId, id }: SecretsPlace, name: string): readonly string[] {
  return ['connection', organizationId, id, name];
}

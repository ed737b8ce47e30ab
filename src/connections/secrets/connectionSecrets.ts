import { isDeepStrictEqual } from 'node:util';
import { DomainError, type Violation } from '../../kernel/errors';
import { connectionCorrupt, type Connection, type EncryptedSecrets } from '../connection';
import type { OpenConnection } from '../connector';
import type { JsonObject } from '../connectorType';
import type { SecretCipher } from './secretCipher';
import { listSecretFields, listSecretDestinationFields, withoutNullSecrets, withoutSecrets } from './secretFields';

/** The part of a connection that its secrets are bound to. */
type SecretsOwner = Pick<Connection, 'id' | 'organizationId' | 'connectorId'>;

/**
 * Moves the secret fields of connections from their configuration into encrypted storage, and decrypts them for
 * connectors.
 */
export class ConnectionSecrets {
  constructor(private readonly cipher: SecretCipher) {}

  /**
   * Returns a connection with its decrypted secrets for the connector. Throws `secrets_unreadable`, which names the
   * fields, `connection_corrupt`.
   */
  openConnection(connection: Connection): OpenConnection {
    if (connection.corruptParts) throw connectionCorrupt(connection.id, connection.corruptParts);
    return {
      connection,
      settings: { ...connection.configuration, ...this.decryptAll(connection, connection.encryptedSecrets) },
    };
  }

  /**
   * Prevents a second key from being created while there are secrets that were encrypted with a lost key. `hasSecrets`:
   * whether any connection has secrets. Throws `secrets_unreadable`.
   */
  async assertKeyUsable(
    connectorId: string,
    newConfiguration: JsonObject,
    hasSecrets: () => Promise<boolean>,
  ): Promise<void> {
    const needsNewKey = this.cipher.willCreateKey && listNewSecrets(connectorId, newConfiguration).length > 0;
    if (!needsNewKey || !(await hasSecrets())) return;
    const message =
      "the server's key for secrets (secrets.key in its data folder) is missing, but there are secrets encrypted with it; restore the file. If it is lost, create a new one there (openssl rand -base64 32) and set all secrets again";
    throw new DomainError('conflict', 'secrets_unreadable', message);
  }

  /**
   * Splits a configuration into its plain fields and its secret fields, which it encrypts. `newConfiguration` replaces
   * the previous one: a secret field that it omits is unchanged (`previousSecrets`); one that is null is removed.
   * Throws `secrets_unreadable` if a secret must be encrypted and the server has no usable key.
   */
  encryptSecretFields(
    owner: SecretsOwner,
    newConfiguration: JsonObject,
    previousSecrets: EncryptedSecrets,
  ): Pick<Connection, 'configuration' | 'encryptedSecrets'> {
    const newSecrets = listNewSecrets(owner.connectorId, newConfiguration).map(
      ([name, value]) => [name, this.cipher.encrypt(getSecretContext(owner, name), value)] as const,
    );
    return {
      configuration: withoutSecrets(owner.connectorId, newConfiguration),
      encryptedSecrets: { ...selectUnchanged(newConfiguration, previousSecrets), ...Object.fromEntries(newSecrets) },
    };
  }

  /**
   * Reports a change that would send stored secrets to another destination. A user who may change a connection may not
   * read its secrets, but could have them sent to a listener. Each secret must be set again or removed.
   */
  checkDestination(
    { connectorId, configuration, encryptedSecrets }: Connection,
    newConfiguration: JsonObject,
  ): Violation[] {
    const changedFields = listSecretDestinationFields(connectorId).filter(
      (name) => !isDeepStrictEqual(configuration[name], newConfiguration[name]),
    );
    if (changedFields.length === 0) return [];
    const destinations = changedFields.map((name) => `\`${name}\``).join(', ');
    const description = `must be set again, or null to remove it: ${destinations} changed, and a stored secret is only sent to the place that it was set for`;
    return Object.keys(selectUnchanged(newConfiguration, encryptedSecrets)).map((name) => ({
      field: `configuration.${name}`,
      description,
    }));
  }

  /**
   * Returns the configuration after a change with all its secret fields, including unchanged ones; checkDestination
   * decides whether those may stay. Throws `secrets_unreadable`, which names those that must be set again.
   */
  mergeSecrets(connection: Connection, newConfiguration: JsonObject): JsonObject {
    return {
      ...withoutNullSecrets(connection.connectorId, newConfiguration),
      ...this.decryptAll(connection, selectUnchanged(newConfiguration, connection.encryptedSecrets)),
    };
  }

  /** Decrypts secrets. Throws `secrets_unreadable`, which names all of the fields. */
  private decryptAll(owner: SecretsOwner, secrets: EncryptedSecrets): JsonObject {
    try {
      return Object.fromEntries(
        Object.entries(secrets).map(([name, encrypted]) => [
          name,
          this.cipher.decrypt(getSecretContext(owner, name), encrypted),
        ]),
      );
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      const names = Object.keys(secrets)
        .map((name) => `\`${name}\``)
        .join(', ');
      throw new DomainError(error.kind, error.reason, `the secret fields ${names} are unreadable: ${error.message}`, {
        cause: error,
        metadata: { connection_id: owner.id },
      });
    }
  }
}

/** Lists the secret fields that a configuration sets. */
function listNewSecrets(
  connectorId: string,
  newConfiguration: JsonObject,
): (readonly [name: string, value: unknown])[] {
  const secretFields = listSecretFields(connectorId);
  return Object.entries(newConfiguration).filter(([name, value]) => secretFields.includes(name) && value !== null);
}

/** Returns the stored secrets that a new configuration does not mention. */
function selectUnchanged(newConfiguration: JsonObject, previousSecrets: EncryptedSecrets): EncryptedSecrets {
  return Object.fromEntries(Object.entries(previousSecrets).filter(([name]) => !Object.hasOwn(newConfiguration, name)));
}

/** Returns the context of a secret field: its place in the database, the only one where it can be decrypted. */
export function getSecretContext({ organizationId, id }: SecretsOwner, name: string): readonly string[] {
  return ['connection', organizationId, id, name];
}

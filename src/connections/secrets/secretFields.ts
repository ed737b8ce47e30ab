import { findConnector } from '../connectors';
import type { JsonObject } from '../connectorType';

/** Returns the names of the secret fields of a connector; none for an unknown one. */
export function listSecretFields(connectorId: string): readonly string[] {
  return findConnector(connectorId)?.secretFields ?? [];
}

/** Returns the names of the fields that decide where the secrets of a connector are sent; none for an unknown one. */
export function listSecretDestinationFields(connectorId: string): readonly string[] {
  return findConnector(connectorId)?.secretPlaceFields ?? [];
}

/** Returns a configuration without its secret fields. */
export function withoutSecrets(connectorId: string, configuration: JsonObject): JsonObject {
  const secretFields = listSecretFields(connectorId);
  return Object.fromEntries(Object.entries(configuration).filter(([name]) => !secretFields.includes(name)));
}

/** Removes secret fields that are null, which count as absent. */
export function withoutNullSecrets(connectorId: string, configuration: JsonObject): JsonObject {
  const secretFields = listSecretFields(connectorId);
  return Object.fromEntries(
    Object.entries(configuration).filter(([name, value]) => value !== null || !secretFields.includes(name)),
  );
}

import { findConnector } from '../connectors';
import type { JsonObject } from '../connectorType';

/** The names of the secret fields of a connector; none of one that is unknown. */
export function secretFieldsOf(connectorId: string): readonly string[] {
  return findConnector(connectorId)?.secretFields ?? [];
}

/** The names of the fields that say where the secrets of a connector are sent; none of one that is unknown. */
export function secretPlaceFieldsOf(connectorId: string): readonly string[] {
  return findConnector(connectorId)?.secretPlaceFields ?? [];
}

/** What of a configuration may be shown. */
export function withoutSecrets(connectorId: string, configuration: JsonObject): JsonObject {
  const secret = secretFieldsOf(connectorId);
  return Object.fromEntries(Object.entries(configuration).filter(([name]) => !secret.includes(name)));
}

/** Without the secret fields that are null, which counts as not given. */
export function withoutNullSecrets(connectorId: string, configuration: JsonObject): JsonObject {
  const secret = secretFieldsOf(connectorId);
  return Object.fromEntries(Object.entries(configuration).filter(([name, value]) => value !== null || !secret.includes(name)));
}

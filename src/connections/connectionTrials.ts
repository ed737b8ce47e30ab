import type { Database } from '../database';
import { DomainError, throwIfAny } from '../kernel/errors';
import { checkConfiguration } from './configurationCheck';
import type { Connection } from './connection';
import { connectionRepositories } from './connectionRepositories';
import type { ConnectionCheck, OpenConnection } from './connector';
import type { ConnectorHub } from './connectorHub';
import type { JsonObject } from './connectorType';
import type { ConnectionSecrets } from './secrets/connectionSecrets';
import { withoutNullSecrets, withoutSecrets } from './secrets/secretFields';

/** What to try out: a stored connection, perhaps with another configuration; or one that is not stored. */
export type Trial =
  | { readonly kind: 'stored'; readonly id: string; readonly configuration: JsonObject | undefined }
  | { readonly kind: 'new'; readonly connectorId: string; readonly configuration: JsonObject };

/** What trials need of the house. */
export interface ConnectionTrialsOptions {
  readonly database: Database;
  readonly hub: ConnectorHub;
  readonly secrets: ConnectionSecrets;
  /** How long one may take, milliseconds; 20 s unless given. */
  readonly limitMs?: number;
}

const MOST_AT_ONCE = 4;
const RETRY_MS = 5000;
const LIMIT_MS = 20_000;

/** Tries connections out. They dial wherever they are told to, so only few run at once, and none for long. */
export class ConnectionTrials {
  private readonly running = new Map<string, number>();

  constructor(private readonly options: ConnectionTrialsOptions) {}

  /** Throws `connection_not_found`, `validation_failed`, `secrets_unreadable`, `connection_damaged`, `rate_limited`, and the signal's reason once it aborts. */
  async test(organizationId: string, trial: Trial, signal: AbortSignal): Promise<readonly ConnectionCheck[]> {
    const open = await this.open(organizationId, trial);
    this.take(organizationId);
    const { limitMs = LIMIT_MS } = this.options;
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), limitMs);
    // A place is free again when the connector is done, not when the caller has gone: else those who go away could start any number.
    const checks = this.options.hub.test(open, AbortSignal.any([signal, limit.signal])).finally(() => this.release(organizationId));
    try {
      const found = await Promise.race([checks, aborted(signal), aborted(limit.signal)]);
      signal.throwIfAborted();
      return found ?? [timeUp(limitMs)];
    } finally {
      clearTimeout(timer);
    }
  }

  private async open(organizationId: string, trial: Trial): Promise<OpenConnection> {
    const { secrets, database } = this.options;
    if (trial.kind === 'new') {
      throwIfAny(checkConfiguration(trial.connectorId, trial.configuration));
      return { connection: unstored(organizationId, trial), settings: withoutNullSecrets(trial.connectorId, trial.configuration) };
    }
    const connection = await connectionRepositories(database.db).connections.get(organizationId, trial.id);
    if (!trial.configuration) return secrets.open(connection);
    const settings = secrets.merged(connection, trial.configuration);
    throwIfAny([...secrets.checkPlace(connection, trial.configuration), ...checkConfiguration(connection.connectorId, settings)]);
    return { connection: { ...connection, configuration: withoutSecrets(connection.connectorId, trial.configuration) }, settings };
  }

  private take(organizationId: string): void {
    const running = this.running.get(organizationId) ?? 0;
    if (running >= MOST_AT_ONCE) throw tooMany();
    this.running.set(organizationId, running + 1);
  }

  private release(organizationId: string): void {
    const left = (this.running.get(organizationId) ?? 1) - 1;
    if (left > 0) this.running.set(organizationId, left);
    else this.running.delete(organizationId);
  }
}

function unstored(organizationId: string, { connectorId, configuration }: Trial & { readonly kind: 'new' }): Connection {
  const none = { id: '', name: '', description: '', sealedSecrets: {}, policy: {}, createdAt: 0, updatedAt: 0, revision: 0 };
  return { ...none, organizationId, connectorId, enabled: true, configuration: withoutSecrets(connectorId, configuration) };
}

async function aborted(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

function timeUp(limitMs: number): ConnectionCheck {
  return { name: 'time_limit', outcome: 'failed', message: `it took longer than ${limitMs / 1000} s; see that the other side answers, and that nothing between swallows what is sent` };
}

function tooMany(): DomainError {
  return new DomainError('exhausted', 'rate_limited', `${MOST_AT_ONCE} trials of connections of this organization are running already; try again when one has ended`, { retryAfterMs: RETRY_MS });
}

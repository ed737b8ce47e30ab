import type { ErrorKind } from '../../kernel/errors';
import { STATUS_OF } from '../errorTable';

// The kinds of the reasons that the protos name in their "Errors: ..."; `..._not_found` is known by its name.
const KINDS: Readonly<Record<string, ErrorKind>> = {
  validation_failed: 'invalid_argument',
  scope_exceeds_own: 'permission_denied',
  owner_required: 'permission_denied',
  admin_key_required: 'permission_denied',
  changed_meanwhile: 'changed_meanwhile',
  name_taken: 'already_exists',
  already_member: 'already_exists',
  physical_device_already_bound: 'already_exists',
  trigger_id_reused: 'already_exists',
  api_key_ended: 'conflict',
  command_limit_reached: 'conflict',
  confirmation_invalid: 'conflict',
  connection_damaged: 'conflict',
  connection_in_use: 'conflict',
  last_owner: 'conflict',
  media_in_use: 'conflict',
  no_physical_device: 'conflict',
  not_enqueued: 'conflict',
  own_organization: 'conflict',
  query_command_in_use: 'conflict',
  role_in_use: 'conflict',
  secrets_unreadable: 'conflict',
  sensor_in_use: 'conflict',
  system_record: 'conflict',
  template_in_use: 'conflict',
  media_busy: 'exhausted',
  rate_limited: 'exhausted',
  sandbox_busy: 'exhausted',
  resume_token_expired: 'out_of_range',
  storage_full: 'unavailable',
  media_unavailable: 'unavailable',
  sandbox_unavailable: 'unavailable',
  encoder_interrupted: 'unavailable',
};

/** One reason of a failure, and what the protos add to it. */
export interface Reason {
  readonly reason: string;
  readonly kind: ErrorKind;
  readonly status: number;
  /** The words in brackets behind it; empty: none. */
  readonly when: string;
}

/** What a method's comment says, and the failures that it names at its end. */
export interface MethodText {
  readonly text: string;
  readonly errors: readonly Reason[];
  /** Names in the list of failures whose kind nobody said; a test keeps this empty. */
  readonly unknown: readonly string[];
}

/** Reads `What it does. Errors: reason (when), reason; in some case: reason.` */
export function methodText(comment: string): MethodText {
  const at = comment.search(/\bErrors: /);
  if (at < 0) return { text: comment, errors: [], unknown: [] };
  const list = comment.slice(at + 'Errors: '.length);
  const found = [...list.matchAll(/([a-z]+(?:_[a-z]+)+)(?: \(((?:[^()]|\([^()]*\))*)\))?|\((?:[^()]|\([^()]*\))*\)/g)].filter(([, reason]) => reason !== undefined);
  const named = found.map(([, reason = '', when = '']) => ({ reason, when, kind: kindOf(reason) }));
  const errors = named.flatMap(({ kind, ...rest }) => (kind ? [{ ...rest, kind, status: STATUS_OF[kind].http }] : []));
  return { text: comment.slice(0, at).trim(), errors, unknown: named.filter(({ kind }) => !kind).map(({ reason }) => reason) };
}

function kindOf(reason: string): ErrorKind | undefined {
  return reason.endsWith('_not_found') ? 'not_found' : KINDS[reason];
}

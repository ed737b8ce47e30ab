import type { ErrorKind } from '../../src/kernel/errors';
import { STATUS_BY_KIND } from '../../src/api/errors/errorTable';

// The kinds of the reasons that the protos list after "Errors:". The kind of `..._not_found` follows from the name.
const KIND_BY_REASON: Readonly<Record<string, ErrorKind>> = {
  validation_failed: 'invalid_argument',
  scope_escalation: 'permission_denied',
  owner_required: 'permission_denied',
  admin_key_required: 'permission_denied',
  version_conflict: 'version_conflict',
  name_taken: 'already_exists',
  already_member: 'already_exists',
  physical_device_already_bound: 'already_exists',
  trigger_id_reused: 'already_exists',
  idempotency_key_reused: 'already_exists',
  api_key_inactive: 'conflict',
  command_limit_reached: 'conflict',
  dashboard_not_editable: 'permission_denied',
  too_many_dashboards: 'conflict',
  too_many_widgets: 'conflict',
  too_many_sensors: 'conflict',
  content_too_large: 'conflict',
  confirmation_invalid: 'conflict',
  connection_corrupt: 'conflict',
  connection_in_use: 'conflict',
  last_owner_required: 'conflict',
  media_in_use: 'conflict',
  no_physical_device: 'conflict',
  not_cancellable: 'conflict',
  cannot_delete_own_organization: 'conflict',
  query_command_in_use: 'conflict',
  role_in_use: 'conflict',
  secrets_unreadable: 'conflict',
  sensor_in_use: 'conflict',
  read_only_record: 'conflict',
  template_in_use: 'conflict',
  media_queue_full: 'exhausted',
  rate_limited: 'exhausted',
  codec_queue_full: 'exhausted',
  resume_token_expired: 'out_of_range',
  storage_full: 'unavailable',
  media_unavailable: 'unavailable',
  codec_unavailable: 'unavailable',
  encoder_interrupted: 'unavailable',
};

/** The reason of an error. */
export interface Reason {
  readonly reason: string;
  readonly kind: ErrorKind;
  readonly status: number;
  /** The text in brackets after the reason in the proto; empty if none. */
  readonly when: string;
}

/** The parsed comment of a method. */
export interface MethodText {
  /** The description, without the list of errors. */
  readonly text: string;
  readonly errors: readonly Reason[];
  /** Reasons in the list that KIND_BY_REASON does not contain. A test checks that there are none. */
  readonly unknown: readonly string[];
}

/**
 * Matches a reason in snake_case (group 1) and the text in brackets after it (group 2), which may contain one more
 * level of brackets. Also matches other texts in brackets, without groups, so that no reason is found inside of them.
 */
const REASON_OR_BRACKETS = /([a-z]+(?:_[a-z]+)+)(?: \(((?:[^()]|\([^()]*\))*)\))?|\((?:[^()]|\([^()]*\))*\)/g;

/**
 * Parses a comment such as `What it does. Errors: device_not_found, version_conflict (the etag is old); over REST also:
 * media_not_found.`: the text before `Errors:`, and the three reasons, the second one with `when` "the etag is old".
 * Other words of the list are ignored.
 */
export function parseMethodText(comment: string): MethodText {
  const listStart = comment.search(/\bErrors: /);
  if (listStart < 0) return { text: comment, errors: [], unknown: [] };
  const list = comment.slice(listStart + 'Errors: '.length);
  const matches = [...list.matchAll(REASON_OR_BRACKETS)].filter(([, reason]) => reason !== undefined);
  const reasons = matches.map(([, reason = '', when = '']) => ({ reason, when, kind: findKind(reason) }));
  const errors = reasons.flatMap(({ kind, ...rest }) =>
    kind ? [{ ...rest, kind, status: STATUS_BY_KIND[kind].http }] : [],
  );
  return {
    text: comment.slice(0, listStart).trim(),
    errors,
    unknown: reasons.filter(({ kind }) => !kind).map(({ reason }) => reason),
  };
}

/** Returns the kind of a reason; undefined if it is unknown. */
function findKind(reason: string): ErrorKind | undefined {
  return reason.endsWith('_not_found') ? 'not_found' : KIND_BY_REASON[reason];
}

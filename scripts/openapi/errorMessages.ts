const ID = '0199a3c4-5d14-743e-9f21-6b7a8c9d0e14';

// The texts that the code sends, with example values. When you change a message, change it here too.
const MESSAGE_BY_REASON: Readonly<Record<string, string>> = {
  validation_failed: 'name: is required: set a value',
  api_key_missing: 'Missing API key. Send it in the X-API-Key header (gRPC: x-api-key metadata).',
  insufficient_scope:
    'the API key, or the role of its owner, does not have the scope devices:read: use a key that has it',
  admin_key_required:
    'this method requires an admin key: create one on the server with "plantroom keys create --admin"',
  scope_escalation:
    'a key cannot grant or change more than its own permissions: scope devices:write. Remove them, or use a key that has them.',
  owner_required:
    'only an owner can add, change or remove an owner: use a key of an owner of the organization that can act as one (canActAsOwner), which an owner or the command line created',
  message_too_large: 'the body is too large: at most 1048576 bytes are allowed',
  headers_too_large: 'the request headers are too large: send fewer or shorter headers',
  media_type_unsupported:
    'this route does not support the type of the body: send JSON with Content-Type: application/json',
  not_acceptable:
    'the Accept header allows none of the supported types: use application/x-ndjson, text/event-stream, application/json',
  range_not_satisfiable: 'the range is outside the content, which has 284113 bytes: request a range within it',
  internal: 'internal server error: search the server log for request 0199a3c4-5d10-7c3e-9f21-6b7a8c9d0e1f',
  database_unavailable: 'the database is unavailable at the moment (ECONNREFUSED) and nothing was stored: try again',
  version_conflict:
    'the device was changed since it was read: read it again (its etag is now "4") and repeat the change',
  name_taken: 'a connection named "North plant" already exists (names are case-insensitive); choose another name',
  physical_device_already_bound:
    'the physical device "70b3d57ed005a1c2" of this connection is already bound to another device; unbind it there first, or use another clientDeviceId',
  already_member: `user "${ID}" is already a member of this organization: update the member to change the role`,
  trigger_id_reused:
    'the triggerId "evening-41" was used for this command with other params within 7 days; send another triggerId, or the same params',
  idempotency_key_reused:
    'the idempotency key was used for a different request within the last 24 hours: use a new key for a new request, or send the first request unchanged',
  api_key_inactive: 'the API key plr_7Hc2xQ was revoked or has expired: create a new key',
  dashboard_not_editable:
    'you may not change this dashboard: only its owner, the owners and admins of the organization and the members of its editor roles may; export it and import it under another name to make your own',
  too_many_dashboards:
    'the organization already has the maximum of 1000 dashboards: delete one first (private dashboards of other members, which you cannot see, count too)',
  too_many_widgets: 'a dashboard can have at most 60 widgets (got 61): use two dashboards',
  too_many_sensors: 'the widgets of a dashboard can show at most 200 different sensors (got 214): use two dashboards',
  content_too_large:
    'the content of a dashboard can have at most 524288 bytes as JSON (got 601233): use two dashboards',
  command_limit_reached: 'the device already has the maximum of 200 commands; delete one first',
  confirmation_invalid:
    'the confirmation is older than 10 minutes: call again without a confirmation to get a new one, and check what would be deleted',
  cannot_delete_own_organization:
    'the API key belongs to this organization: delete it with an admin key of another organization, or on the command line of the server',
  connection_corrupt:
    'the configuration of the connection is unreadable in the database; update the connection with a new configuration, with its secret fields, or restore a copy of the database',
  connection_in_use: '3 devices are bound to the connection; unbind or delete them first',
  last_owner_required: `user "${ID}" is the last owner of the organization: make another member an owner first`,
  media_in_use: 'a device shows the image: remove it from the images of the device first',
  media_not_found: `image "${ID}" does not exist in this organization: upload it first (images that no device shows are deleted after 24 hours)`,
  member_not_found: `user "${ID}" is not a member of this organization: use a user from the list of members`,
  no_physical_device:
    'the device is not bound to a physical device; update it with physicalDevice first, then set the mappings',
  not_cancellable:
    'the execution is in_transit: it may have reached the device; only enqueued executions can be cancelled',
  organization_not_found: `organization "${ID}" does not exist: use an id from the list of organizations`,
  profile_not_found:
    '"quellwerk" "qw-10" has no profile for the band KR920; similar: quellwerk/qw-10/1.10/EU868, quellwerk/qw-10/1.10/US915',
  query_command_in_use:
    '"Set valve position", "Close valve" use this command as query command; assign another query command to them first',
  role_in_use: 'the role is in use: 3 members have it. Assign them another role first.',
  secrets_unreadable:
    'a secret field of the connection was encrypted with a different key; restore the old key, or set it again',
  sensor_in_use: `commands expect a state of the sensors: sensor ${ID} by command "Set valve position"; remove the sensors from expectedSensorStates first`,
  read_only_record: 'this sensor template is a system record and cannot be changed; create your own instead',
  template_in_use:
    'the sensor template is in use: 2 sensors use it; remove them or assign another template to them first',
  user_not_found: `user "${ID}" not found: use an id from the list of members (\`plantroom users list\` shows all users)`,
  media_queue_full: 'too many images are waiting to be processed: try again in a few seconds',
  rate_limited:
    'too many failed authentications from this address or with this key: find the client that sends them, and try again in 2 s',
  codec_queue_full: 'too many scripts are waiting: try again in a second',
  resume_token_expired:
    'the events after the resumeToken are no longer stored; watch without a token, then read the executions with ListExecutions and GetExecution',
  storage_full:
    'the disk of the data folder is full or almost full and the image was not stored: free some space on the server, then try again',
  storage_read_only:
    'the database of the server is read-only at the moment, so nothing can be stored: check why (mount, dmesg, a PostgreSQL standby or read-only mode), make it writable, then try again',
  codec_unavailable: 'the script threads cannot be started: see the server log for the reason',
  media_unavailable: 'images cannot be processed: see the server log for the reason',
  encoder_interrupted:
    'the server interrupted the encoder (the machine was too busy to give the script 250 ms of CPU time within 900 ms: try again); nothing was stored, try again',
};

const NOT_FOUND = '_not_found';

/**
 * Returns an example of the message of a reason. A reason `..._not_found` without its own example gets the common text.
 * Throws if there is no example.
 */
export function formatMessage(reason: string): string {
  const ownMessage = MESSAGE_BY_REASON[reason];
  if (ownMessage !== undefined) return ownMessage;
  if (!reason.endsWith(NOT_FOUND))
    throw new Error(`scripts/openapi/errorMessages.ts has no example of the message of ${reason}: add one`);
  const recordKind = reason.slice(0, -NOT_FOUND.length).replaceAll('_', ' ');
  return `${recordKind} "${ID}" not found in this organization: list the ${recordKind}s to see the existing ones`;
}

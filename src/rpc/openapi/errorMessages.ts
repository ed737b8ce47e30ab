const ID = '0199a3c4-5d14-743e-9f21-6b7a8c9d0e14';

// As the server says them, with things that are at hand.
const MESSAGES: Readonly<Record<string, string>> = {
  validation_failed: 'name: is required; give a value',
  api_key_missing: 'the call has no API key; send one as x-api-key',
  scope_missing: 'the key does not hold the scope devices:read; use one that was created with it',
  admin_key_required: 'only an admin key may do this; make one on the command line of the server (plantroom keys create --admin)',
  scope_exceeds_own: 'a key cannot give or change more than it holds: scope devices:write; leave that out, or call with a key that holds it',
  owner_required: 'only an owner makes, changes or removes an owner; call with a key that belongs to an owner of the organization',
  message_too_large: 'the body is too large; at most 1048576 bytes are allowed',
  headers_too_large: 'the headers of the request are too large; send fewer and shorter ones',
  media_type_unsupported: 'the body is of a type that this address does not take; send JSON with Content-Type: application/json',
  not_acceptable: 'the answer comes as application/x-ndjson or text/event-stream, and the header Accept allows neither; name one of them',
  range_not_satisfiable: 'the range lies beyond the content, which has 284113 bytes; ask for bytes from 0 on',
  internal: 'something went wrong on the server; its log names the cause under request 0199a3c4-5d10-7c3e-9f21-6b7a8c9d0e1f',
  database_unavailable: 'the database cannot be reached; try again in some seconds',
  changed_meanwhile: 'the device was changed since it was read; read it again (its etag is "4" now) and repeat the change',
  name_taken: 'another connection of the organization is called "North plant"; choose another name',
  physical_device_already_bound: 'the physical device 70b3d57ed005a1c2 is bound to another device; unbind it there first',
  already_member: `user "${ID}" is a member of this organization already; update the member to give another role`,
  trigger_id_reused: 'the triggerId "evening-41" was used for this command with other params within 7 days; give another triggerId, or the same params',
  api_key_ended: 'the API key plr_7Hc2xQ was revoked or has expired; create a new one instead',
  command_limit_reached: 'the device has 200 commands, which is as many as one may have; delete one first',
  confirmation_invalid: 'the confirmation is older than 10 minutes; call once without a confirmation to get a new one, and look at what would go',
  own_organization: 'the key belongs to this organization and would end with it; delete the organization with the admin key of another one, or on the command line of the server',
  connection_damaged: 'the configuration of the connection cannot be read in the database; update it with a configuration, or restore a copy of the database',
  connection_in_use: '3 devices are bound to the connection; unbind or delete them first',
  last_owner: `user "${ID}" is the last owner of the organization; make somebody else an owner first`,
  media_in_use: '1 device shows the picture; take it out of their images first',
  no_physical_device: 'the device is not bound to a physical device; bind it by an update with physicalDevice, then set the mappings',
  not_enqueued: 'the execution is delivered: its command has left the server; only one that is still enqueued can be cancelled',
  profile_not_found: '"quellwerk" "qw-10" has no profile for the band KR920; near are quellwerk/qw-10/1.10/EU868, quellwerk/qw-10/1.10/US915',
  query_command_in_use: '"Set valve position" uses this command as query command; give it another one first',
  role_in_use: 'the role is in use: 3 members have it; give them another one first',
  secrets_unreadable: 'a secret field of the connection cannot be read with the key file of this server; give the field again by an update',
  sensor_in_use: 'commands expect a state of the sensors: "Set valve position"; take them out of expectedSensorStates first',
  system_record: 'this sensor template comes with the server and cannot be changed; create one of your own instead',
  template_in_use: 'the sensor template is in use: 2 sensors have it; give them another one first',
  media_busy: 'too many pictures wait to be looked at; try again in some seconds',
  rate_limited: 'too many calls without a good key came from this address, or with this key; look which client sends them, and try again in 2 s',
  sandbox_busy: 'too many scripts wait for their turn; try again in a second',
  resume_token_expired: 'what came after the resumeToken is not all kept any more; read what is there, then watch without a token',
  storage_full: 'the disk of the data folder is full and the picture was not stored; free some space on the server, then try again',
  storage_read_only: 'the disk of the server cannot be written just now, so that nothing is stored; see why, make it writable, then try again',
  sandbox_unavailable: 'the threads that run scripts cannot be started; the log of the server says why',
  media_unavailable: 'the thread that looks at pictures cannot be started; the log of the server says why',
  encoder_interrupted: 'the encoder was interrupted through no fault of its own; nothing was stored, try again',
};

const NOT_FOUND = '_not_found';

/** What the server may say of a reason. Throws for a reason of which nobody wrote it. */
export function messageOf(reason: string): string {
  const known = MESSAGES[reason];
  if (known !== undefined) return known;
  if (!reason.endsWith(NOT_FOUND)) throw new Error(`src/rpc/openapi/errorMessages.ts has no example of the message of ${reason}; write one`);
  return `${reason.slice(0, -NOT_FOUND.length).replaceAll('_', ' ')} "${ID}" does not exist in this organization`;
}

import {
  checkDeviceConfiguration,
  normalizeClientDeviceId,
  findProfileId,
  type ConnectionRepository,
} from '../connections';
import { DomainError, notFound, throwIfAny, validationFailed, type Violation } from '../kernel/errors';
import { newId } from '../kernel/ids';
import type { DeviceScope } from '../kernel/resourceScope';
import type { ProfileIdRepository } from '../profiles';
import type { BindingRecord } from './bindingRepository';
import { profileNotFound, type Device, type PhysicalDevice } from './device';

/** The physical device to bind to, as the caller names it. */
export interface BindingInput {
  /** The id of the physical device on its connection: on LoRaWAN its DevEUI, on MQTT the device id in its topics. */
  readonly clientDeviceId: string;
  readonly connectionId: string;
  readonly configuration: Readonly<Record<string, unknown>> | undefined;
}

/** Changes to a binding. An undefined field is unchanged. */
export type BindingPatch = { readonly [Field in keyof BindingInput]: BindingInput[Field] | undefined };

/**
 * Returns the physical device that a device is bound to after a patch. `current`: its physical device before, if any.
 * Throws `validation_failed` if the id or the connection is missing.
 */
export function applyBindingPatch(current: PhysicalDevice | undefined, patch: BindingPatch): BindingInput {
  const clientDeviceId = patch.clientDeviceId ?? current?.clientDeviceId;
  const connectionId = patch.connectionId ?? current?.connectionId;
  if (clientDeviceId !== undefined && connectionId !== undefined)
    return { clientDeviceId, connectionId, configuration: patch.configuration ?? current?.configuration };
  const missing = Object.entries({ clientDeviceId, connectionId }).filter(([, value]) => value === undefined);
  throw validationFailed(
    missing.map(([name]): Violation => ({
      field: `physicalDevice.${name}`,
      description: 'is required to bind a device that has no physical device yet',
    })),
  );
}

/** The repositories that a binding is checked against. */
interface BindingRepositories {
  readonly connections: ConnectionRepository;
  readonly profiles: ProfileIdRepository;
}

/**
 * Validates and normalizes a binding with the connector of the connection. A binding assigns a physical device (a
 * `clientDeviceId` on a connection) to a digital device, with a configuration for the connector. `canUseConnection`:
 * whether the caller may see the connection. Throws `connection_not_found`, `validation_failed`.
 */
export async function validateBinding(
  { connections, profiles }: BindingRepositories,
  organizationId: string,
  input: BindingInput,
  now: number,
  canUseConnection = true,
): Promise<BindingRecord> {
  if (!canUseConnection) throw notFound('connection', input.connectionId);
  const { connectorId } = await connections.get(organizationId, input.connectionId);
  const configuration = input.configuration ?? {};
  const normalizeDeviceId = () => normalizeClientDeviceId(connectorId, input.clientDeviceId);
  const configurationViolations = checkDeviceConfiguration(connectorId, configuration);
  throwIfAny([
    ...catchViolations(normalizeDeviceId),
    ...(configurationViolations.length > 0
      ? configurationViolations
      : await findProfileViolations(profiles, configuration)),
  ]);
  return {
    id: newId(),
    clientDeviceId: normalizeDeviceId(),
    connectionId: input.connectionId,
    configuration,
    createdAt: now,
  };
}

/** Returns the violations that `validate` throws, so that they can be reported together with others. */
function catchViolations(validate: () => void): readonly Violation[] {
  try {
    validate();
    return [];
  } catch (error) {
    if (error instanceof DomainError && error.reason === 'validation_failed') return error.violations;
    throw error;
  }
}

/** Returns a violation if the configuration names a profile that does not exist. */
async function findProfileViolations(
  profiles: ProfileIdRepository,
  configuration: BindingRecord['configuration'],
): Promise<readonly Violation[]> {
  const profileId = findProfileId(configuration);
  return profileId === undefined || (await profiles.exists(profileId)) ? [] : profileNotFound(profileId).violations;
}

/**
 * Whether a restricted key may bind this device to the connection: the key names the connection, or it names the device
 * and the device is already on that connection.
 */
export function canBindTo(
  deviceScope: DeviceScope | undefined,
  { id, physicalDevice }: Pick<Device, 'id' | 'physicalDevice'>,
  connectionId: string,
): boolean {
  return (
    !deviceScope ||
    deviceScope.connectionIds.has(connectionId) ||
    (deviceScope.ids.has(id) && physicalDevice?.connectionId === connectionId)
  );
}

/**
 * Creates the error for an unbind after which the key could no longer access the device, because the key reaches
 * the device only through its binding.
 */
export function unbindLosesAccess(): DomainError {
  return new DomainError(
    'permission_denied',
    'insufficient_scope',
    'the key reaches the device only through its current connection and would lose access to it; use a key that names the device, or a key without a device limit',
    {
      metadata: { required_scope: 'devices:write' },
    },
  );
}

/**
 * Creates the error for a rebind to another physical device that the key must not reach, because the key names the
 * device but not the connection.
 */
export function rebindNotAllowed(): DomainError {
  return new DomainError(
    'permission_denied',
    'insufficient_scope',
    'the key names the device but not the connection, so it cannot bind the device to another physical device; use a key that names the connection, or a key without a device limit',
    {
      metadata: { required_scope: 'devices:write' },
    },
  );
}

/** Whether two bindings refer to the same physical device. */
export function isSamePhysicalDevice(current: PhysicalDevice | undefined, wanted: BindingRecord): boolean {
  return current?.connectionId === wanted.connectionId && current.clientDeviceId === wanted.clientDeviceId;
}

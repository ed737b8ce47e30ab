import { checkDeviceConfiguration, normalizeClientDeviceId, profileIdOf, type ConnectionRepository } from '../connections';
import { DomainError, notFound, throwIfAny, validationFailed, type Violation } from '../kernel/errors';
import { newId } from '../kernel/ids';
import type { DeviceReach } from '../kernel/reach';
import type { ProfileIdRepository } from '../profiles';
import type { BindingRecord } from './bindingRepository';
import { noSuchProfile, type Device, type PhysicalDevice } from './device';

/** The physical device to bind to, as the caller names it. */
export interface BindingInput {
  readonly clientDeviceId: string;
  readonly connectionId: string;
  readonly configuration: Readonly<Record<string, unknown>> | undefined;
}

/** What to change on a binding; an undefined field stays as it is. */
export type BindingPatch = { readonly [Field in keyof BindingInput]: BindingInput[Field] | undefined };

/** What a patch asks for on a device that may have a binding. Throws `validation_failed` if it leaves a new binding incomplete. */
export function patchedBinding(current: PhysicalDevice | undefined, patch: BindingPatch): BindingInput {
  const clientDeviceId = patch.clientDeviceId ?? current?.clientDeviceId;
  const connectionId = patch.connectionId ?? current?.connectionId;
  if (clientDeviceId !== undefined && connectionId !== undefined) return { clientDeviceId, connectionId, configuration: patch.configuration ?? current?.configuration };
  const missing = Object.entries({ clientDeviceId, connectionId }).filter(([, value]) => value === undefined);
  throw validationFailed(missing.map(([name]): Violation => ({ field: `physicalDevice.${name}`, description: 'is required to bind a device that has no physical device yet' })));
}

/** What a binding is held against. */
export interface BindingRooms {
  readonly connections: ConnectionRepository;
  readonly profiles: ProfileIdRepository;
}

/** A binding ready to be stored, as the connection's connector wants it. `mayUse`: whether the caller sees the connection. Throws `connection_not_found`, `validation_failed`. */
export async function checkedBinding({ connections, profiles }: BindingRooms, organizationId: string, input: BindingInput, now: number, mayUse = true): Promise<BindingRecord> {
  if (!mayUse) throw notFound('connection', input.connectionId);
  const { connectorId } = await connections.get(organizationId, input.connectionId);
  const configuration = input.configuration ?? {};
  const clientDeviceId = () => normalizeClientDeviceId(connectorId, input.clientDeviceId);
  const wrong = checkDeviceConfiguration(connectorId, configuration);
  throwIfAny([...violationsOf(clientDeviceId), ...(wrong.length > 0 ? wrong : await violationsOfProfile(profiles, configuration))]);
  return { id: newId(), clientDeviceId: clientDeviceId(), connectionId: input.connectionId, configuration, createdAt: now };
}

/** So that they are told together with others. */
function violationsOf(work: () => void): readonly Violation[] {
  try {
    work();
    return [];
  } catch (error) {
    if (error instanceof DomainError && error.reason === 'validation_failed') return error.violations;
    throw error;
  }
}

async function violationsOfProfile(profiles: ProfileIdRepository, configuration: BindingRecord['configuration']): Promise<readonly Violation[]> {
  const profileId = profileIdOf(configuration);
  return profileId === undefined || (await profiles.exists(profileId)) ? [] : noSuchProfile(profileId).violations;
}

/** Whether a limited key sees the connection when it binds the device: one that it names, or for a device that it names itself the one that it is on. */
export function mayBindTo(reach: DeviceReach | undefined, { id, physicalDevice }: Pick<Device, 'id' | 'physicalDevice'>, connectionId: string): boolean {
  return !reach || reach.connectionIds.has(connectionId) || (reach.ids.has(id) && physicalDevice?.connectionId === connectionId);
}

/** The device would leave what the key may reach, and only its binding lets the key reach it. */
export function unbindingLeavesReach(): DomainError {
  return new DomainError('permission_denied', 'scope_missing', 'the key reaches the device by the connection that it is bound to alone, and would lose it; use a key that names the device, or one without that limit', {
    metadata: { required_scope: 'devices:write' },
  });
}

/** The device would take the place of what the key does not reach: it names the device, and not the connection that all is on. */
export function rebindingLeavesReach(): DomainError {
  return new DomainError('permission_denied', 'scope_missing', 'the key names the device, but not the connection, so it may not bind the device to another one in the field; use a key that names the connection, or one without that limit', {
    metadata: { required_scope: 'devices:write' },
  });
}

/** Whether two bindings mean the same device in the field. */
export function isSamePhysicalDevice(current: PhysicalDevice | undefined, wanted: BindingRecord): boolean {
  return current?.connectionId === wanted.connectionId && current.clientDeviceId === wanted.clientDeviceId;
}

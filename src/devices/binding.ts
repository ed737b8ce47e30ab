import { checkDeviceConfiguration, normalizeClientDeviceId, type ConnectionRepository } from '../connections';
import { DomainError, throwIfAny, validationFailed, type Violation } from '../kernel/errors';
import { newId } from '../kernel/ids';
import type { BindingRecord } from './bindingRepository';
import type { PhysicalDevice } from './device';

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

/** A binding ready to be stored, as the connection's connector wants it. Throws `connection_not_found`, `validation_failed`. */
export async function checkedBinding(connections: ConnectionRepository, organizationId: string, input: BindingInput, now: number): Promise<BindingRecord> {
  const { connectorId } = await connections.get(organizationId, input.connectionId);
  const configuration = input.configuration ?? {};
  const clientDeviceId = () => normalizeClientDeviceId(connectorId, input.clientDeviceId);
  throwIfAny([...violationsOf(clientDeviceId), ...checkDeviceConfiguration(connectorId, configuration)]);
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

/** Whether two bindings mean the same device in the field. */
export function isSamePhysicalDevice(current: PhysicalDevice | undefined, wanted: BindingRecord): boolean {
  return current?.connectionId === wanted.connectionId && current.clientDeviceId === wanted.clientDeviceId;
}

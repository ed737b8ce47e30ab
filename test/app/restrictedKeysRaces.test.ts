import { AuditLog } from '../../src/access';
import {
  CancelExecutionRequest,
  CommandMode,
  CreateCommandRequest,
  DeleteCommandRequest,
  ExecuteCommandRequest,
  ListCommandsRequest,
  type ListCommandsResponse,
  ListExecutionsRequest,
  type ListExecutionsResponse,
  UpdateCommandRequest,
  VerificationStrategy,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import {
  AddSensorsToDeviceRequest,
  DeleteDigitalDeviceRequest,
  type DigitalDevice,
  GetDigitalDeviceRequest,
  RemoveSensorsFromDeviceRequest,
  SetSensorMappingsRequest,
  UpdateDeviceSensorRequest,
  UpdateDigitalDeviceRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { SCOPES } from '../../src/kernel/scopes';
import type { AuditedCall, PendingAuditEntry } from '../../src/api/pipeline/auditor';
import { call, callFails, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { createRestrictedKey } from '../support/restrictedKeys';
import { as } from '../support/testApp';
import { type LimitedDevice, type LimitedSite, startLimitedSite } from './limitedSite';

const NOBODY = '0190a0a0-0000-7000-8000-000000000001';
const SCOPES_OF_KEY = SCOPES.filter((scope) => scope !== 'gateways:write');
const command = {
  name: 'New',
  mode: CommandMode.COMMAND_MODE_DIRECT,
  verificationStrategy: VerificationStrategy.VERIFICATION_STRATEGY_NO_VERIFICATION,
  directPayload: '{"on": true}',
};

type Headers = Record<string, string>;
/** A change of the device with this id, by a restricted key. */
type Change = (id: string, key: Headers) => Promise<GrpcErrorInfo>;

// The functions that every change passes after the gate and before its handler.
const trail: { begin: (this: AuditLog, call: AuditedCall) => Promise<PendingAuditEntry> } = AuditLog.prototype;

describe.each(engines())(
  'a device that leaves the scope of a restricted key between the gate and the change, on $name',
  (engine) => {
    const { begin } = trail;
    let site: LimitedSite;
    let key: Headers;
    let device: LimitedDevice;
    let executionId: string;
    /** Runs once, after the gate has let a change pass and before its handler starts. */
    let onPassed: (() => Promise<void>) | undefined;

    beforeAll(async () => {
      trail.begin = async function (auditIntent) {
        const passed = onPassed;
        onPassed = undefined;
        const intent = await begin.call(this, auditIntent);
        await passed?.();
        return intent;
      };
      site = await startLimitedSite(engine);
      const [near] = site.connections;
      key = as(
        await createRestrictedKey(site.server, site.server.organizationId, { connectionIds: [near] }, SCOPES_OF_KEY),
        site.server.organizationId,
      );
      device = await site.device('moving', near);
      ({ executionId } = await site.execute(device.first, device));
    });
    afterAll(async () => {
      trail.begin = begin;
      await site.stop();
    });

    /** Reads everything that these calls could change except the connection, which the move changes. */
    const state = async (): Promise<unknown> => {
      const { devices, commands, all } = site;
      const { name, sensors, physicalDevice } = await call<GetDigitalDeviceRequest, DigitalDevice>(
        devices.getDigitalDevice.bind(devices),
        GetDigitalDeviceRequest.fromPartial({ id: device.id }),
        all,
      );
      const listed = await call<ListCommandsRequest, ListCommandsResponse>(
        commands.listCommands.bind(commands),
        ListCommandsRequest.fromPartial({ id: device.id }),
        all,
      );
      const executions = await call<ListExecutionsRequest, ListExecutionsResponse>(
        commands.listExecutions.bind(commands),
        ListExecutionsRequest.fromPartial({ id: device.id }),
        all,
      );
      return {
        name,
        sensors,
        mappings: physicalDevice?.sensorMappings,
        commands: listed.commands,
        executions: executions.items.map(({ id }) => id),
      };
    };

    it.each<[string, Change]>([
      [
        'change it',
        async (id, by) =>
          await callFails(
            site.devices.updateDigitalDevice.bind(site.devices),
            UpdateDigitalDeviceRequest.fromPartial({ id, name: 'Changed' }),
            by,
          ),
      ],
      [
        'add sensors',
        async (id, by) =>
          await callFails(
            site.devices.addSensorsToDevice.bind(site.devices),
            AddSensorsToDeviceRequest.fromPartial({ id, sensorTemplateIds: [await template()] }),
            by,
          ),
      ],
      [
        'give a sensor another template',
        async (id, by) =>
          await callFails(
            site.devices.updateDeviceSensor.bind(site.devices),
            UpdateDeviceSensorRequest.fromPartial({
              id,
              sensorId: device.sensorId,
              sensorTemplateId: await template(),
            }),
            by,
          ),
      ],
      [
        'map its sensors',
        async (id, by) =>
          await callFails(
            site.devices.setSensorMappings.bind(site.devices),
            SetSensorMappingsRequest.fromPartial({ id, mappings: [{ sensorId: device.sensorId, sourcePath: 'b' }] }),
            by,
          ),
      ],
      [
        'remove sensors',
        async (id, by) =>
          await callFails(
            site.devices.removeSensorsFromDevice.bind(site.devices),
            RemoveSensorsFromDeviceRequest.fromPartial({ id, sensorIds: [device.sensorId] }),
            by,
          ),
      ],
      [
        'create a command',
        async (id, by) =>
          await callFails(
            site.commands.createCommand.bind(site.commands),
            CreateCommandRequest.fromPartial({ id, command }),
            by,
          ),
      ],
      [
        'change a command',
        async (id, by) =>
          await callFails(
            site.commands.updateCommand.bind(site.commands),
            UpdateCommandRequest.fromPartial({ id, commandId: device.first, command }),
            by,
          ),
      ],
      [
        'execute',
        async (id, by) =>
          await callFails(
            site.commands.executeCommand.bind(site.commands),
            ExecuteCommandRequest.fromPartial({ id, commandId: device.second }),
            by,
          ),
      ],
      [
        'delete a command',
        async (id, by) =>
          await callFails(
            site.commands.deleteCommand.bind(site.commands),
            DeleteCommandRequest.fromPartial({ id, commandId: device.second }),
            by,
          ),
      ],
      [
        'delete it',
        async (id, by) =>
          await callFails(
            site.devices.deleteDigitalDevice.bind(site.devices),
            DeleteDigitalDeviceRequest.fromPartial({ id }),
            by,
          ),
      ],
    ])('is not found by a call to %s, and stays unchanged', async (_, change) => {
      await expectUntouched(device.id, 'device_not_found', change);
    });

    it('takes its executions with it, so that a cancel does not find them', async () => {
      await expectUntouched(
        executionId,
        'execution_not_found',
        async (id, by) =>
          await callFails(
            site.commands.cancelExecution.bind(site.commands),
            CancelExecutionRequest.fromPartial({ executionId: id }),
            by,
          ),
      );
    });

    const template = async (): Promise<string> => {
      const { devices, all } = site;
      const { sensors } = await call<GetDigitalDeviceRequest, DigitalDevice>(
        devices.getDigitalDevice.bind(devices),
        GetDigitalDeviceRequest.fromPartial({ id: device.id }),
        all,
      );
      return sensors[0]?.sensorTemplateId ?? '';
    };

    /** Asserts that the change is rejected like one of an unknown resource. */
    const expectUntouched = async (id: string, reason: string, change: Change): Promise<void> => {
      const [near, far] = site.connections;
      await site.move(device, near);
      const before = await state();
      let moved = false;
      onPassed = async () => {
        await site.move(device, far);
        moved = true;
      };
      const refused = await change(id, key);
      onPassed = undefined;
      expect(moved).toBe(true);
      expect(refused.reason).toBe(reason);
      const unknown = await change(NOBODY, key);
      expect(refused.message.replaceAll(id, 'ID')).toBe(unknown.message.replaceAll(NOBODY, 'ID'));
      expect(await state()).toEqual(before);
    };
  },
);

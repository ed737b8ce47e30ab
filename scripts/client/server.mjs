// Starts a server with TLS for the tests of the package, and creates a site with the package itself.
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { start } from './project.mjs';

/** Starts a server in a folder. Returns the client options, command line flags, environment, and `stop`. */
export async function startServer(folder) {
  const keyFile = join(folder, 'key.json');
  const settings = {
    DATA_DIR: join(folder, 'data'),
    GRPC_LISTEN: '127.0.0.1:0',
    HTTP_LISTEN: 'off',
    METRICS_LISTEN: 'off',
    BOOTSTRAP_KEY_FILE: keyFile,
  };
  const server = start(process.execPath, [resolve('dist/main.js'), 'serve'], {
    cwd: folder,
    env: Object.fromEntries(Object.entries(settings).map(([name, value]) => [`PLANTROOM_${name}`, value])),
  });
  const { grpc } = JSON.parse(await server.until('"server.ready"'));
  const { apiKey, organizationId } = JSON.parse(readFileSync(keyFile, 'utf8'));
  const caFile = join(folder, 'data/tls/ca.pem');
  const address = grpc.replace('127.0.0.1', 'localhost');
  return {
    options: { address, apiKey, organizationId, ca: readFileSync(caFile) },
    flags: ['--address', address, '--ca', caFile],
    env: { PLANTROOM_API_KEY: apiKey, PLANTROOM_ORGANIZATION_ID: organizationId },
    stop: server.stop,
  };
}

/** Creates the site of the README: a gateway connection, a heating valve, its sensor, and a command that opens it. */
export async function createSite(require, options) {
  const { createPlantroomClient, paginate } = require('plantroom-client');
  const {
    CommandMode,
    ParamType,
    VerificationStrategy,
  } = require('plantroom-client/protos/actuator_command/v2/actuator_command_service');
  const client = createPlantroomClient(options);
  const { id: connectionId } = await client.connections.createConnection({
    connectorId: 'gateway',
    name: 'Boiler room',
  });
  const { id } = await client.devices.createDigitalDevice({
    name: 'Heating valve',
    physicalDevice: { clientDeviceId: 'valve-1', connectionId },
  });
  const sensorTemplateIds = [];
  for await (const template of paginate(client.sensorTemplates.listSensorTemplates, {}))
    if (template.keyName === 'valve_position') sensorTemplateIds.push(template.id);
  const { sensors } = await client.devices.addSensorsToDevice({ id, sensorTemplateIds });
  await client.devices.setSensorMappings({ id, mappings: [{ sensorId: sensors[0].id, sourcePath: 'position' }] });
  const { id: commandId } = await client.commands.createCommand({
    id,
    command: {
      name: 'Set position',
      mode: CommandMode.COMMAND_MODE_DIRECT,
      verificationStrategy: VerificationStrategy.VERIFICATION_STRATEGY_WAIT_NEXT_UPLINK,
      paramsSchema: { position: { type: ParamType.PARAM_TYPE_NUMBER, min: 0, max: 100 } },
      directPayload: '{"position": {{params.position}}}',
      expectedSensorStates: [{ sensorId: sensors[0].id, valueTemplate: '{{params.position}}' }],
      convergenceTimeout: 60,
    },
  });
  client.close();
  return { connectionId, deviceId: id, commandId };
}

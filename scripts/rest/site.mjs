// Creates objects over REST for tools that test the API.

/**
 * Creates one object of each kind, as in the examples of the document. Returns their ids by parameter or collection
 * name.
 */
export async function createSite(base, headers) {
  const post = async (path, body) => {
    const response = await fetch(base + path, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${await response.text()}`);
    return await response.json();
  };
  const key = await post('/api/v2/devices/sensor-templates/normalized-keys', { name: 'tester_temperature' });
  const template = await post('/api/v2/devices/sensor-templates', {
    keyNameId: key.id,
    sensorType: 'temperature',
    valueType: 'number',
  });
  const connection = await post('/api/v2/connections', { connectorId: 'gateway', name: 'Tester gateway' });
  const device = await post('/api/v2/devices', {
    name: 'Tester',
    physicalDevice: { clientDeviceId: 'tester-1', connectionId: connection.id },
  });
  const { sensors } = await post(`/api/v2/devices/${device.id}/sensors`, { sensorTemplateIds: [template.id] });
  const command = await post(`/api/v2/devices/${device.id}/commands`, {
    command: { name: 'Set', mode: 'direct', verificationStrategy: 'no_verification', directPayload: '{"on": true}' },
  });
  const { executionId } = await post(`/api/v2/devices/${device.id}/actuator-executions`, { commandId: command.id });
  const templates = '/api/v2/devices/sensor-templates';
  return {
    '/api/v2/devices': device.id,
    [templates]: template.id,
    [`${templates}/normalized-keys`]: key.id,
    '/api/v2/connections': connection.id,
    '/api/v2/organizations': headers['X-Organization-Id'],
    connectionId: connection.id,
    clientDeviceId: 'tester-1',
    sensorId: sensors[0].id,
    commandId: command.id,
    executionId,
  };
}

import { checkDeviceConfiguration, effectivePolicy, normalizeClientDeviceId } from '../../src/connections';

describe('rules of connections', () => {
  it.each([
    ['nothing', {}, { maxInFlight: 16 }],
    ['everything', { queueLimit: 1, sleepy: true, deliveryTimeout: 5, ackTimeout: 6, maxInFlight: 7, implicitAckTimeout: 8, convergenceTimeout: 9, uplinkInterval: 10 }, { maxInFlight: 7 }],
  ])('fills in what connectors read of a policy that says %s', (_, policy, effective) => {
    expect(effectivePolicy(policy)).toEqual(effective);
  });

  it('takes a device id of a gateway as it is, less the white space around it', () => {
    expect(normalizeClientDeviceId('gateway', '  Valve/1 + 2 #3 ')).toBe('Valve/1 + 2 #3');
    expect(normalizeClientDeviceId('gateway', '🌡'.repeat(255))).toBe('🌡'.repeat(255));
  });

  it.each(['', '   ', 'a\u0000b', 'a\nb', '\ud800', 'x'.repeat(256)])('refuses the device id %j', (text) => {
    expect(() => normalizeClientDeviceId('gateway', text)).toThrow(expect.objectContaining({ reason: 'validation_failed', violations: [expect.objectContaining({ field: 'physicalDevice.clientDeviceId' })] }));
  });

  it('lets gateways have any device configuration, and knows no connector that is none', () => {
    expect(checkDeviceConfiguration('gateway', { any: { thing: [1] } })).toEqual([]);
    expect(() => checkDeviceConfiguration('pigeon', {})).toThrow(expect.objectContaining({ reason: 'connector_not_found' }));
  });
});

import { convertToType, type ValueType } from '../../src/sensorTemplates';

describe('convertToType', () => {
  it.each<[ValueType, unknown, unknown]>([
    ['number', 21.5, 21.5],
    ['number', '-2.5e1', -25],
    ['number', '0', 0],
    ['number', ' 21', undefined],
    ['number', '021', undefined],
    ['number', '+1', undefined],
    ['number', '0x10', undefined],
    ['number', '', undefined],
    ['number', '1e999', undefined],
    ['number', true, undefined],
    ['number', null, undefined],
    ['number', [1], undefined],
    ['integer', 7, 7],
    ['integer', '7', 7],
    ['integer', 7.5, undefined],
    ['integer', '9007199254740993', undefined],
    ['boolean', true, true],
    ['boolean', 0, false],
    ['boolean', 'ON', true],
    ['boolean', 'off', false],
    ['boolean', 'True', true],
    ['boolean', '0', false],
    ['boolean', 2, undefined],
    ['boolean', 'yes', undefined],
    ['string', 'open', 'open'],
    ['string', '', ''],
    ['string', 5, undefined],
    ['string', null, undefined],
    ['json', null, null],
    ['json', { a: [1] }, { a: [1] }],
  ])('converts to %s the value %j as %j', (valueType, value, expected) => {
    expect(convertToType(valueType, value as never)).toEqual(expected);
  });
});

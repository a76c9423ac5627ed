module borzoi/tests/liftbridge

go 1.18

require github.com/liftbridge-io/go-liftbridge/v2 v2.3.0
